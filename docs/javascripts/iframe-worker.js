// Search in pages that were opened as files (file://), where browsers allow no Worker: the same script runs in a
// hidden frame instead. The theme's plugin `offline` would load such a shim from another host; it takes this one,
// which mkdocs.yml names, because of its name.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    #frame = document.createElement("iframe");
    #waiting = [];
    #loaded = false;

    constructor(url) {
      super();
      this.#frame.hidden = true;
      // Before the frame is added: some browsers load an empty page at once, others a moment later.
      this.#frame.addEventListener("load", () => this.#start(url), { once: true });
      document.body.append(this.#frame);
    }

    postMessage(data) {
      if (this.#loaded) this.#send(data);
      else this.#waiting.push(data);
    }

    terminate() {
      this.#frame.remove();
    }

    #start(url) {
      const inner = this.#frame.contentWindow;
      inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = inner.document.createElement("script");
      script.addEventListener("load", () => {
        this.#loaded = true;
        this.#waiting.splice(0).forEach((data) => this.#send(data));
      });
      script.src = url;
      inner.document.head.append(script);
    }

    #send(data) {
      this.#frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
    }
  };
}

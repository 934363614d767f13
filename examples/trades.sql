-- Windows can be written as in CQL, Spark or Flink; see docs/queries.md.

-- name: busy
SELECT symbol, sum(price * volume) AS value, max(price) AS top
FROM trades [RANGE '12 min' SLIDE '5 min']
WHERE volume > 500
GROUP BY symbol;

-- name: vwap
SELECT symbol, sum(price * volume) / sum(volume) AS vwap
FROM trades
GROUP BY symbol, window(ts, '30 minutes', '10 minutes');

-- name: venues
SELECT exchange, count(*) AS trades, avg(volume) AS size
FROM TABLE(HOP(TABLE trades, DESCRIPTOR(ts), INTERVAL '10' MINUTE, INTERVAL '20' MINUTE))
GROUP BY exchange, window_start, window_end;

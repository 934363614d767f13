-- name: hot
SELECT t.location, t.value, h.value AS humidity
FROM temperature t [RANGE '60 min'], humidity h [RANGE '30 min']
WHERE t.location = h.location AND t.value > 30;

-- name: near
SELECT t.location, t.value - h.value AS gap
FROM temperature t [RANGE '5 min'] JOIN humidity h [RANGE '5 min'] ON t.location = h.location;

-- name: counted
SELECT t.location, count(*) AS n, max(t.value) AS top
FROM temperature t [RANGE '60 min'], humidity h [RANGE '30 min']
WHERE t.location = h.location
GROUP BY t.location, window('10 min', '5 min');

-- A window query over one of the streams, beside the joins; its rows are read once for all.
-- name: mean
SELECT location, avg(value) AS mean FROM temperature [RANGE '10 min' SLIDE '5 min'] GROUP BY location

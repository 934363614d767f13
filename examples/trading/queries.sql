-- name: vwap_1m
SELECT symbol, sum(price * volume) / sum(volume) AS vwap FROM trades [RANGE '1 min'] GROUP BY symbol;
-- name: vwap_5m
SELECT symbol, sum(price * volume) / sum(volume) AS vwap FROM trades [RANGE '5 min' SLIDE '1 min'] GROUP BY symbol;
-- name: vwap_30m
SELECT symbol, sum(price * volume) / sum(volume) AS vwap FROM trades [RANGE '30 min' SLIDE '5 min'] GROUP BY symbol;

-- name: range_5m
SELECT symbol, max(price) - min(price) AS spread FROM trades [RANGE '5 min' SLIDE '1 min'] GROUP BY symbol;
-- name: range_30m
SELECT symbol, max(price) - min(price) AS spread FROM trades [RANGE '30 min' SLIDE '5 min'] GROUP BY symbol;

-- name: large_5m
SELECT symbol, count(*) AS trades, sum(price * volume) AS value
FROM trades [RANGE '5 min' SLIDE '1 min'] WHERE volume >= 1000 GROUP BY symbol;
-- name: large_12m
SELECT symbol, count(*) AS trades, sum(price * volume) AS value
FROM trades [RANGE '12 min' SLIDE '5 min'] WHERE volume >= 1000 GROUP BY symbol;

-- name: venues_10m
SELECT exchange, count(*) AS trades, avg(volume) AS size FROM trades [RANGE '10 min' SLIDE '5 min'] GROUP BY exchange;
-- name: market_1m
SELECT count(*) AS trades, sum(price * volume) AS value FROM trades [RANGE '1 min'];

-- name: alert_swing
SELECT symbol, max(price) / min(price) - 1 AS swing FROM trades [RANGE '5 min' SLIDE '1 min'] GROUP BY symbol
HAVING max(price) / min(price) > 1.02 AND count(*) > 50;
-- name: alert_block
SELECT symbol, max(volume) AS largest, sum(price * volume) AS value FROM trades [RANGE '10 min' SLIDE '5 min']
GROUP BY symbol HAVING sum(price * volume) > 150000000;

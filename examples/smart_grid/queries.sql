-- name: grid_1h
SELECT avg(load) AS mean, max(load) AS peak FROM meters [RANGE '1 hour' SLIDE '30 min'];

-- name: house_5m
SELECT house, avg(load) AS mean, max(load) AS peak FROM meters [RANGE '5 min'] GROUP BY house;
-- name: house_1h
SELECT house, avg(load) AS mean, max(load) AS peak FROM meters [RANGE '1 hour' SLIDE '5 min'] GROUP BY house;

-- name: household_15m
SELECT house, household, avg(load) AS mean FROM meters [RANGE '15 min' SLIDE '5 min'] GROUP BY house, household;
-- name: household_1h
SELECT house, household, avg(load) AS mean FROM meters [RANGE '1 hour' SLIDE '15 min'] GROUP BY house, household;

-- name: plug_30m
SELECT house, household, plug, avg(load) AS mean, max(load) AS peak
FROM meters [RANGE '30 min' SLIDE '10 min'] GROUP BY house, household, plug;
-- name: plug_busy_1h
SELECT house, household, plug, count(*) AS readings
FROM meters [RANGE '1 hour' SLIDE '10 min'] WHERE load > 100 GROUP BY house, household, plug;

-- name: alert_overload
SELECT house, household, plug, avg(load) AS mean FROM meters [RANGE '30 min' SLIDE '10 min']
GROUP BY house, household, plug HAVING avg(load) > 400 AND count(*) >= 5;

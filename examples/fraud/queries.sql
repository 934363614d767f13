-- name: card_1m
SELECT card, count(*) AS payments, sum(amount) AS spent, max(amount) AS largest, avg(amount) AS mean
FROM payments [RANGE '1 min' SLIDE '1 min'] GROUP BY card;
-- name: card_5m
SELECT card, count(*) AS payments, sum(amount) AS spent, max(amount) AS largest, avg(amount) AS mean
FROM payments [RANGE '5 min' SLIDE '1 min'] GROUP BY card;
-- name: card_15m
SELECT card, count(*) AS payments, sum(amount) AS spent, max(amount) AS largest, avg(amount) AS mean
FROM payments [RANGE '15 min' SLIDE '5 min'] GROUP BY card;
-- name: card_1h
SELECT card, count(*) AS payments, sum(amount) AS spent, max(amount) AS largest, avg(amount) AS mean
FROM payments [RANGE '1 hour' SLIDE '5 min'] GROUP BY card;
-- name: card_3h
SELECT card, count(*) AS payments, sum(amount) AS spent, max(amount) AS largest, avg(amount) AS mean
FROM payments [RANGE '3 hours' SLIDE '15 min'] GROUP BY card;
-- name: card_6h
SELECT card, count(*) AS payments, sum(amount) AS spent, max(amount) AS largest, avg(amount) AS mean
FROM payments [RANGE '6 hours' SLIDE '30 min'] GROUP BY card;
-- name: card_12h
SELECT card, count(*) AS payments, sum(amount) AS spent, max(amount) AS largest, avg(amount) AS mean
FROM payments [RANGE '12 hours' SLIDE '1 hour'] GROUP BY card;
-- name: card_24h
SELECT card, count(*) AS payments, sum(amount) AS spent, max(amount) AS largest, avg(amount) AS mean
FROM payments [RANGE '24 hours' SLIDE '1 hour'] GROUP BY card;

-- name: abroad_1h
SELECT card, approx_count_distinct(country) AS countries FROM payments [RANGE '1 hour' SLIDE '5 min'] GROUP BY card;

-- name: alert_spending
SELECT card, sum(amount) AS spent, count(*) AS payments FROM payments [RANGE '1 hour' SLIDE '5 min']
GROUP BY card HAVING sum(amount) > 5000;
-- name: alert_countries
SELECT card, approx_count_distinct(country) AS countries, sum(amount) AS spent
FROM payments [RANGE '15 min' SLIDE '5 min'] WHERE amount > 200 GROUP BY card
HAVING approx_count_distinct(country) >= 4;

DROP VIEW results;

-- One row per cell for people who ask in SQL; nothing is stored twice.
CREATE VIEW results AS
SELECT
	r.lab, c.run_id, r.command, c.id AS cell, c.benchmark,
	d.engine, d.kind, d.host, d.gpus, d.model, d.image, d.digest,
	c.axes, c.repetition, c.started, c.finished, c.verdict, c.error,
	(c.summary::json #>> '{duration_s}')::double precision               AS duration_s,
	(c.summary::json #>> '{requests}')::double precision                 AS requests,
	(c.summary::json #>> '{completed}')::double precision                AS completed,
	(c.summary::json #>> '{failed}')::double precision                   AS failed,
	(c.summary::json #>> '{input_tokens}')::double precision             AS input_tokens,
	(c.summary::json #>> '{output_tokens}')::double precision            AS output_tokens,
	(c.summary::json #>> '{request_throughput}')::double precision       AS request_throughput,
	(c.summary::json #>> '{output_throughput}')::double precision        AS output_throughput,
	(c.summary::json #>> '{total_throughput}')::double precision         AS total_throughput,
	(c.summary::json #>> '{goodput}')::double precision                  AS goodput,
	(c.summary::json #>> '{ttft_ms,mean}')::double precision             AS ttft_mean_ms,
	(c.summary::json #>> '{ttft_ms,median}')::double precision           AS ttft_p50_ms,
	(c.summary::json #>> '{ttft_ms,percentiles,99}')::double precision   AS ttft_p99_ms,
	(c.summary::json #>> '{tpot_ms,mean}')::double precision             AS tpot_mean_ms,
	(c.summary::json #>> '{tpot_ms,median}')::double precision           AS tpot_p50_ms,
	(c.summary::json #>> '{tpot_ms,percentiles,99}')::double precision   AS tpot_p99_ms,
	(c.summary::json #>> '{itl_ms,mean}')::double precision              AS itl_mean_ms,
	(c.summary::json #>> '{itl_ms,median}')::double precision            AS itl_p50_ms,
	(c.summary::json #>> '{itl_ms,percentiles,99}')::double precision    AS itl_p99_ms,
	(c.summary::json #>> '{e2el_ms,mean}')::double precision             AS e2el_mean_ms,
	(c.summary::json #>> '{e2el_ms,median}')::double precision           AS e2el_p50_ms,
	(c.summary::json #>> '{e2el_ms,percentiles,99}')::double precision   AS e2el_p99_ms,
	r.bundled, (c.origin::json #>> '{format}')                           AS imported,
	d.gpu_count, d.price_per_hour, d.ready_s, c.cache_reset,
	(c.telemetry::json #>> '{energy_j}')::double precision               AS energy_j,
	(c.telemetry::json #>> '{prefix_cache_hit_rate}')::double precision  AS prefix_cache_hit_rate,
	(c.telemetry::json #>> '{speculative_acceptance}')::double precision AS speculative_acceptance
FROM cells c
JOIN runs r ON r.id = c.run_id
LEFT JOIN deployments d ON d.run_id = c.run_id AND d.id = c.deployment_id;

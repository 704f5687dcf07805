DROP VIEW results;

-- One row per cell for people who ask in SQL; nothing is stored twice.
CREATE VIEW results AS
SELECT
	r.lab, c.run_id, r.command, c.id AS cell, c.benchmark,
	d.engine, d.kind, d.host, d.gpus, d.model, d.image, d.digest,
	c.axes, c.repetition, c.started, c.finished, c.verdict, c.error,
	c.summary ->> '$.duration_s'               AS duration_s,
	c.summary ->> '$.requests'                 AS requests,
	c.summary ->> '$.completed'                AS completed,
	c.summary ->> '$.failed'                   AS failed,
	c.summary ->> '$.input_tokens'             AS input_tokens,
	c.summary ->> '$.output_tokens'            AS output_tokens,
	c.summary ->> '$.request_throughput'       AS request_throughput,
	c.summary ->> '$.output_throughput'        AS output_throughput,
	c.summary ->> '$.total_throughput'         AS total_throughput,
	c.summary ->> '$.goodput'                  AS goodput,
	c.summary ->> '$.ttft_ms.mean'             AS ttft_mean_ms,
	c.summary ->> '$.ttft_ms.median'           AS ttft_p50_ms,
	c.summary ->> '$.ttft_ms.percentiles.99'   AS ttft_p99_ms,
	c.summary ->> '$.tpot_ms.mean'             AS tpot_mean_ms,
	c.summary ->> '$.tpot_ms.median'           AS tpot_p50_ms,
	c.summary ->> '$.tpot_ms.percentiles.99'   AS tpot_p99_ms,
	c.summary ->> '$.itl_ms.mean'              AS itl_mean_ms,
	c.summary ->> '$.itl_ms.median'            AS itl_p50_ms,
	c.summary ->> '$.itl_ms.percentiles.99'    AS itl_p99_ms,
	c.summary ->> '$.e2el_ms.mean'             AS e2el_mean_ms,
	c.summary ->> '$.e2el_ms.median'           AS e2el_p50_ms,
	c.summary ->> '$.e2el_ms.percentiles.99'   AS e2el_p99_ms,
	r.bundled, c.origin ->> '$.format'         AS imported,
	d.gpu_count, d.price_per_hour, d.ready_s, c.cache_reset,
	c.telemetry ->> '$.energy_j'               AS energy_j,
	c.telemetry ->> '$.prefix_cache_hit_rate'  AS prefix_cache_hit_rate,
	c.telemetry ->> '$.speculative_acceptance' AS speculative_acceptance
FROM cells c
JOIN runs r ON r.id = c.run_id
LEFT JOIN deployments d ON d.run_id = c.run_id AND d.id = c.deployment_id;

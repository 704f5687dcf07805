package load

// Progress is where a run stands.
type Progress struct {
	Elapsed      float64 `json:"elapsed_s"`
	Sent         int     `json:"sent"`
	Done         int     `json:"done"`
	Failed       int     `json:"failed"`
	InFlight     int     `json:"in_flight"`
	OutputTokens int64   `json:"output_tokens"` // content chunks so far
	Total        int     `json:"total"`         // requests to be measured; 0 when the run is bounded by time
	Warmup       bool    `json:"warmup,omitempty"`
}

// Result is a finished run.
type Result struct {
	Summary Summary
	Records []Record // in the order in which requests were dispatched
}

// Job is one run of the generator, complete: what the agent is handed.
type Job struct {
	Target   Target   `json:"target"`
	Workload Workload `json:"workload"`
	Seed     uint64   `json:"seed"` // of prompts and arrivals; derived from the cell
	// Percentiles are reported beside mean, median and std; nil means
	// [DefaultPercentiles]. They select what is shown, not what is measured.
	Percentiles []float64 `json:"percentiles,omitempty"`

	// Secrets are headers, by name, that are sent like [Target.Headers] and are
	// never marshalled: neither results nor logs can show them. Whoever hands a job
	// to another process has to hand them over beside it.
	Secrets map[string]string `json:"-"`

	// Calibrated is what is known of the machine that runs the job; it belongs to
	// the machine and not to the job, and is never marshalled.
	Calibrated *Calibrated `json:"-"`

	// Files says where the paths of the data set ([Dataset.Inputs]) lie on the
	// machine that runs the job. What is not in it lies where it says.
	Files map[string]string `json:"files,omitempty"`
}

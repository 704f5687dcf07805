package load

import "encoding/json"

// Batch is requests that are all there at the start and are sent to no server: what an
// engine's own benchmark is given.
type Batch struct {
	Dataset      Dataset `json:"dataset"`
	Requests     int     `json:"requests"`
	OutputTokens int     `json:"output_tokens"` // asked for, per request; 0: as the data set says
}

// offline is what tells a batch from a workload where either may stand: in JSON and in
// fingerprints.
const offline = "offline"

// MarshalJSON writes the batch as a workload with a mode of its own.
func (b Batch) MarshalJSON() ([]byte, error) {
	type members Batch
	return json.Marshal(struct {
		Mode string `json:"mode"`
		members
	}{offline, members(b)})
}

// Fingerprint is everything about the batch that can change a number, as
// [Workload.Fingerprint] is of a workload.
func (b Batch) Fingerprint() map[string]string {
	f := fingerprint{"mode": offline}
	f.number("requests", b.Requests)
	f.number("output_tokens", b.OutputTokens)
	f.dataset(b.Dataset)
	return f
}

// Prompts is a job that makes the prompts of the batch, as token ids wherever they are
// known. It is not to be sent.
func (b Batch) Prompts(seed uint64) Job {
	return Job{Seed: seed, Workload: Workload{Dataset: b.Dataset, Requests: b.Requests, OutputTokens: b.OutputTokens,
		Endpoint: Completions}}
}

package provision

// Object is an object of a cluster, as a manifest describes it.
type Object struct {
	APIVersion string // "apps/v1"
	Kind       string // "Deployment"
	Name       string
	Text       Text   // the whole of it, as JSON
	Pos        string // where it stands, "gateway.yaml:12"
}

// String names the object in messages: "Deployment web (gateway.yaml:12)".
func (o Object) String() string {
	s := o.Kind + " " + o.Name
	if o.Pos != "" {
		s += " (" + o.Pos + ")"
	}
	return s
}

// Await is a condition that objects have when what they describe is there.
type Await struct {
	Kind      string
	Name      string // empty: every object of the kind
	Condition string // "Ready"
}

// PodRole are the pods that do the same for an engine.
type PodRole struct {
	Name      string
	Selector  string // of their labels: "llm-d.ai/role=prefill"
	Instances int    // how many there have to be; 0: at least one
	Port      int    // where each exports what it counts; 0: nowhere
	Engine    string // the kind whose counters these are; empty: none
}

package load

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Adapter is a LoRA adapter that a share of the requests asks for, by the name under which the server has
// it. What adapters leave goes to the model itself.
type Adapter struct {
	Name  string  `json:"name"`
	Share float64 `json:"share"` // above 0, and together at most 1
}

// OfAdapter are the figures of those requests alone that one adapter answers.
type OfAdapter struct {
	Name string `json:"name"` // empty: the model itself
	Figures
}

// ParseAdapter reads "NAME=SHARE".
func ParseAdapter(text string) (a Adapter, err error) {
	name, share, _ := strings.Cut(text, "=")
	a.Name = strings.TrimSpace(name)
	if a.Share, err = strconv.ParseFloat(strings.TrimSpace(share), 64); a.Name == "" || err != nil {
		return a, fmt.Errorf("%q is not an adapter: write NAME=SHARE, such as sql=0.25", text)
	}
	return a, nil
}

// SortAdapters puts adapters in the order of their names.
func SortAdapters(list []Adapter) {
	slices.SortFunc(list, func(a, b Adapter) int { return strings.Compare(a.Name, b.Name) })
}

func (a Adapter) String() string { return fmt.Sprintf("%s %v", a.Name, a.Share) }

// Adapted is the name of the adapter at a place between 0 and 1; empty: the model itself.
func (w Workload) Adapted(at float64) string {
	for _, a := range w.Adapters {
		if at -= a.Share; at < 0 {
			return a.Name
		}
	}
	return ""
}

// routes reports whether a member of a body says who answers a request, which adapters say already.
func (w Workload) routes(member string) bool {
	return len(w.Adapters) > 0 && (member == "model" || member == "lora_path")
}

// Adapting names the adapters and their shares: "chat 0.25, sql 0.5".
func (w Workload) Adapting() string {
	var parts []string
	for _, a := range w.Adapters {
		parts = append(parts, a.String())
	}
	return strings.Join(parts, ", ")
}

// adapting: adapters have names, and shares of a whole.
func (w Workload) adapting(p *problems) {
	sum := 0.0
	for i, a := range w.Adapters {
		p.add(a.Name == "", "adapters", "an adapter has no name: write the one that the server knows it by")
		p.add(!(a.Share > 0 && a.Share <= 1), "adapters", "adapter %q has a share of %v: it lies above 0 and up to 1",
			a.Name, a.Share)
		p.add(slices.ContainsFunc(w.Adapters[:i], func(b Adapter) bool { return a.Name == b.Name }), "adapters",
			"adapter %q is there twice", a.Name)
		sum += a.Share
	}
	p.add(sum > 1+1e-9, "adapters", "the shares of adapters are %v together, and no more than 1 is there: what they "+
		"leave goes to the model itself", sum)
}

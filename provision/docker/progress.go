package docker

import (
	"strings"

	"hclbench/provision"
)

// pullMessage is one line of the daemon's account of a pull.
type pullMessage struct {
	ID             string // of a layer, or the tag
	Status         string
	ProgressDetail struct{ Current, Total int64 }
	Error          string
}

// pullTracker adds up what the daemon says about each layer.
type pullTracker struct {
	layers map[string]*pullLayer
	phase  string
	digest string
}

type pullLayer struct {
	bytes, total int64
	done         bool
}

// add takes in one line; it reports whether the sum has changed.
func (t *pullTracker) add(m pullMessage) bool {
	if digest, ok := strings.CutPrefix(m.Status, "Digest: "); ok {
		t.digest = digest
		return false
	}
	if t.layers == nil {
		t.layers, t.phase = make(map[string]*pullLayer), "asking the registry"
	}
	if m.ID == "" || strings.HasPrefix(m.Status, "Pulling from ") {
		return false
	}
	layer := t.layers[m.ID]
	if layer == nil {
		layer = new(pullLayer)
		t.layers[m.ID] = layer
	}
	switch m.Status {
	case "Downloading":
		t.phase = "downloading"
		layer.bytes = m.ProgressDetail.Current
		layer.total = max(layer.total, m.ProgressDetail.Total)
	case "Verifying Checksum", "Download complete":
		layer.bytes = layer.total
	case "Extracting":
		t.phase = "unpacking"
		layer.total = max(layer.total, m.ProgressDetail.Total)
		layer.bytes = layer.total
	case "Pull complete", "Already exists":
		layer.bytes = layer.total
		layer.done = true
	}
	return true
}

func (t *pullTracker) sum() provision.PullProgress {
	p := provision.PullProgress{Layers: len(t.layers), Phase: t.phase}
	for _, l := range t.layers {
		p.Bytes += l.bytes
		p.Total += l.total
		if l.done {
			p.Done++
		}
	}
	return p
}

// Package bundle makes one file of all that is known of a run, and takes such a file
// into another store.
//
// It is a tar archive, compressed with Zstandard. bundle.json comes first; then inputs/
// and logs/, records/ in the order of the cells, and what is there for people only.
package bundle

import (
	"bytes"

	"hclbench/results"
)

// version is that of bundle.json. A reader refuses another one.
const version = 1

// contents is bundle.json.
type contents struct {
	Version     int                  `json:"bundle_version"`
	Run         results.Run          `json:"run"`
	Deployments []results.Deployment `json:"deployments"`
	Cells       []results.Cell       `json:"cells"`
	Recorded    []string             `json:"recorded"` // ids of the cells with a file in records/
	Events      []results.Event      `json:"events"`
}

const (
	indexName  = "bundle.json"
	inputsDir  = "inputs/"
	logsDir    = "logs/" // inputs by that name
	recordsDir = "records/"
)

// Is reports whether a file that begins so can be a bundle.
func Is(begin []byte) bool { return bytes.HasPrefix(begin, []byte{0x28, 0xb5, 0x2f, 0xfd}) }

// Package bundle makes one file of all that is known of a run, and takes such a file
// into another store.
//
// It is a tar archive, compressed with Zstandard. bundle.json comes first; then inputs/
// and logs/, records/ and answers/ in the order of the cells, and what is there for people only.
package bundle

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

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
	Capacities  []results.Capacity   `json:"capacities,omitempty"`
	Stays       []results.Stay       `json:"stays,omitempty"` // what it has had of rented boxes

	Noise []results.Noise `json:"-"` // of its boxes: an input
}

const (
	indexName  = "bundle.json"
	inputsDir  = "inputs/"
	logsDir    = "logs/" // inputs by that name
	recordsDir = "records/"
	answersDir = "answers/"
)

// Is reports whether a file that begins so can be a bundle.
func Is(begin []byte) bool { return bytes.HasPrefix(begin, []byte{0x28, 0xb5, 0x2f, 0xfd}) }

// ErrNoRun says that the store has no such run.
var ErrNoRun = errors.New("there is no such run")

// Write writes a run as a bundle, with more files for people beside it, with what its hosts cost or without.
// The same run gives the same bytes.
func Write(ctx context.Context, w io.Writer, store *results.Store, run string, prices bool, more map[string][]byte) error {
	if err := write(ctx, w, store, run, prices, more); err != nil {
		return fmt.Errorf("bundle run %s: %w", run, err)
	}
	return nil
}

func write(ctx context.Context, w io.Writer, store *results.Store, run string, prices bool, more map[string][]byte) error {
	all, err := read(ctx, store, run)
	if err != nil {
		return err
	}
	for i, d := range all.Deployments {
		if !prices {
			all.Deployments[i] = d.WithoutPrices()
		}
	}
	if !prices {
		all.Stays = nil
	}
	inputs, err := store.Inputs(ctx, run)
	if err != nil {
		return err
	}
	if all.Noise != nil {
		if inputs[results.NoiseInput], err = json.Marshal(all.Noise); err != nil {
			return err
		}
	}
	var index bytes.Buffer
	enc := json.NewEncoder(&index)
	enc.SetEscapeHTML(false) // JSON from elsewhere is kept as it is
	if err := enc.Encode(all); err != nil {
		return err
	}
	z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	files := tar.NewWriter(z)
	add := func(name string, content []byte) { // until the first error
		h := tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(content)), Mode: 0o644,
			ModTime: all.Run.Started.Truncate(time.Second), Format: tar.FormatPAX}
		if err == nil {
			err = files.WriteHeader(&h)
		}
		if err == nil {
			_, err = files.Write(content)
		}
	}
	add(indexName, index.Bytes())
	for _, name := range slices.Sorted(maps.Keys(inputs)) {
		at := name
		if !strings.HasPrefix(name, logsDir) {
			at = inputsDir + name
		}
		add(at, inputs[name])
	}
	for _, id := range all.Recorded {
		content, wrong := store.PackedRecords(ctx, run, id)
		err = errors.Join(err, wrong)
		add(recordsDir+id+results.RecordsSuffix, content)
	}
	for _, c := range all.Cells {
		content, wrong := store.PackedAnswers(ctx, run, c.ID)
		if err = errors.Join(err, wrong); content != nil {
			add(answersDir+c.ID+results.RecordsSuffix, content)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(more)) {
		add(name, more[name])
	}
	if err == nil {
		err = files.Close()
	}
	return errors.Join(err, z.Close())
}

// read is all of a run but the records of its cells and its inputs.
func read(ctx context.Context, store *results.Store, run string) (all contents, err error) {
	all.Version = version
	runs, err := store.Runs(ctx)
	if err != nil {
		return all, err
	}
	i := slices.IndexFunc(runs, func(r results.Run) bool { return r.ID == run })
	if i < 0 {
		return all, ErrNoRun
	}
	all.Run = runs[i]
	if all.Deployments, err = store.Deployments(ctx, run); err != nil {
		return all, err
	}
	if all.Events, err = store.Events(ctx, run); err != nil {
		return all, err
	}
	if all.Capacities, err = store.Capacities(ctx, results.Query{Run: run}); err != nil {
		return all, err
	}
	if all.Stays, err = store.Stays(ctx, run); err != nil {
		return all, err
	}
	rows, err := store.Rows(ctx, results.Query{Run: run})
	asked, wrong := store.Rows(ctx, results.Query{Run: run, Asked: true})
	if err = errors.Join(err, wrong); err != nil {
		return all, err
	}
	for _, r := range append(rows, asked...) {
		if r.Damaged != "" {
			return all, fmt.Errorf("cell %s: %s", r.ID, r.Damaged)
		}
		all.Cells = append(all.Cells, r.Cell)
		same := func(n results.Noise) bool { return n.Box == r.Noise.Box && n.Engine == r.Noise.Engine }
		if r.Noise != nil && !slices.ContainsFunc(all.Noise, same) {
			all.Noise = append(all.Noise, *r.Noise)
		}
		// Records have to be whole: a bundle that nobody can read later is no bundle.
		records, err := store.PackedRecords(ctx, run, r.ID)
		if err != nil {
			return all, err
		}
		if len(records) > 0 {
			all.Recorded = append(all.Recorded, r.ID)
		}
	}
	return all, nil
}

package agent

import (
	endian "encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// CheckModel says what is missing of a model in a directory: what describes it, as
// config.json does, and every file that an index names must be there, and every file of safetensors be as long as its own
// header says. It reads headers, not weights. A directory without an index or
// weights that it knows is only looked for.
func CheckModel(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no %s on the host", dir)
	}
	if err != nil {
		return fmt.Errorf("look at the model: %w", err)
	}
	if len(entries) == 0 {
		return fmt.Errorf("%s is empty", dir)
	}
	weights := map[string]bool{}
	var wrong []error
	described := func(e os.DirEntry) bool {
		return e.Name() == "config.json" || e.Name() == "params.json" || filepath.Ext(e.Name()) == ".gguf"
	}
	if !slices.ContainsFunc(entries, described) {
		wrong = append(wrong, errors.New("config.json is missing"))
	}
	for _, e := range entries {
		name := e.Name()
		switch {
		case filepath.Ext(name) == ".safetensors":
			weights[name] = true
		case name == "model.safetensors.index.json" || name == "pytorch_model.bin.index.json":
			shards, err := shardsOf(filepath.Join(dir, name))
			if err != nil {
				wrong = append(wrong, fmt.Errorf("%s: %w", name, err))
			}
			for _, s := range shards {
				weights[s] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(weights)) {
		if err := checkWeights(filepath.Join(dir, name)); errors.Is(err, fs.ErrNotExist) {
			wrong = append(wrong, fmt.Errorf("%s is missing", name))
		} else if err != nil {
			wrong = append(wrong, fmt.Errorf("%s %w", name, err))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	const most = 5
	more := len(wrong) - most
	if more > 0 {
		wrong = append(wrong[:most], fmt.Errorf("and %d more", more))
	}
	return fmt.Errorf("%s is not whole: %w", dir, errors.Join(wrong...))
}

// shardsOf are the files that an index names.
func shardsOf(index string) ([]string, error) {
	text, err := os.ReadFile(index)
	if err != nil {
		return nil, err
	}
	var is struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(text, &is); err != nil {
		return nil, err
	}
	if len(is.WeightMap) == 0 {
		return nil, errors.New("it names no files")
	}
	shards := slices.Sorted(maps.Values(is.WeightMap))
	for _, s := range shards {
		if !filepath.IsLocal(s) {
			return nil, fmt.Errorf("%q is not below the model", s)
		}
	}
	return slices.Compact(shards), nil
}

// maxHeader is what the safetensors library takes for a header at most.
const maxHeader = 100_000_000

// checkWeights holds a file's length against its header. The form is 8 bytes with
// the header's length, the header, then the tensors
// (https://huggingface.co/docs/safetensors, "Format").
func checkWeights(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if filepath.Ext(file) != ".safetensors" {
		if info.Size() == 0 {
			return errors.New("is empty")
		}
		return nil
	}
	var length uint64
	if err := endian.Read(f, endian.LittleEndian, &length); err != nil || length > maxHeader {
		return errors.New("has no header of safetensors")
	}
	header := map[string]json.RawMessage{}
	if err := json.NewDecoder(io.LimitReader(f, int64(length))).Decode(&header); err != nil {
		return errors.New("has no header of safetensors")
	}
	delete(header, "__metadata__")
	var end int64
	for name, text := range header {
		var tensor struct {
			DataOffsets [2]int64 `json:"data_offsets"`
		}
		if err := json.Unmarshal(text, &tensor); err != nil {
			return fmt.Errorf("has a header with an odd tensor %q", name)
		}
		end = max(end, tensor.DataOffsets[1])
	}
	if want := 8 + int64(length) + end; info.Size() != want {
		return fmt.Errorf("has %s of %s", bytesText(info.Size()), bytesText(want))
	}
	return nil
}

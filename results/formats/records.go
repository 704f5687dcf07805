package formats

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	"hclbench/load"
	"hclbench/results/door"
)

// detailed are the members of --save-detailed and --output-details that are kept
// as records.
func detailed() []string {
	return []string{"input_lens", "output_lens", "ttfts", "itls", "start_times", "errors"}
}

// elsewhere is the class of a request that failed at another tool, which has no
// classes.
const elsewhere = "elsewhere"

// readRecords makes records of the arrays of every request, and returns the
// object with null in their places. Times count from the first start; where there are no
// starts, each request seems to begin at once.
func readRecords(o *object) ([]load.Record, *object, error) {
	var inputs, outputs []int
	var ttfts, starts []float64
	var itls [][]float64
	var errs []string
	var wrong []error
	for i, v := range []any{&inputs, &outputs, &ttfts, &itls, &starts, &errs} {
		wrong = append(wrong, o.into(detailed()[i], v))
	}
	if err := errors.Join(wrong...); err != nil {
		return nil, nil, err
	}
	n := len(ttfts)
	if n == 0 || len(inputs) != n || len(outputs) != n || len(itls) != n || len(errs) > n || starts != nil && len(starts) != n {
		return nil, o, nil // not all of them: they stay what they are
	}
	zero := 0.0
	if starts != nil {
		zero = slices.Min(starts)
	}
	records := make([]load.Record, n)
	for i := range records {
		r := &records[i]
		r.Seq, r.InputTokens, r.OutputTokens, r.AskedInput, r.AskedOutput = i, inputs[i], outputs[i], inputs[i], outputs[i]
		if starts != nil {
			r.Sent = seconds(starts[i] - zero)
		}
		r.Scheduled, r.Ready = r.Sent, r.Sent
		if ttfts[i] > 0 {
			r.First = r.Sent + seconds(ttfts[i])
		}
		r.Last = max(r.Sent, r.First)
		for _, gap := range itls[i] {
			r.Gaps = append(r.Gaps, seconds(gap))
			r.Last += seconds(gap)
		}
		r.End = r.Last
		if i < len(errs) && errs[i] != "" {
			r.Class, r.Error = elsewhere, errs[i]
		}
		if err := door.Record(r); err != nil {
			return nil, nil, err
		}
	}
	kept := &object{slices.Clone(o.keys), maps.Clone(o.values)}
	for _, key := range detailed() {
		if kept.has(key) {
			kept.add(key, nil) // its place
		}
	}
	return records, kept, nil
}

func seconds(s float64) time.Duration { return time.Duration(math.Round(s * float64(time.Second))) }

// addRecords adds the arrays of every request, failed ones included, with times
// in seconds since the measurement began. The generated texts are not kept, and
// so are empty, unless they came with an import.
func (o *object) addRecords(records []load.Record) {
	n := len(records)
	inputs, outputs := make([]int, n), make([]int, n)
	ttfts, itls, starts := make([]float64, n), make([][]float64, n), make([]float64, n)
	errs := make([]string, n)
	for i, r := range records {
		inputs[i], outputs[i], starts[i], itls[i] = r.InputTokens, r.OutputTokens, r.Sent.Seconds(), []float64{}
		if !r.OK() {
			inputs[i] = cmp.Or(r.InputTokens, r.AskedInput) // the server may have said nothing about it
			if errs[i] = r.Class + ": " + r.Error; r.Class == elsewhere {
				errs[i] = r.Error
			}
		}
		if r.First > 0 {
			ttfts[i] = (r.First - r.Sent).Seconds()
		}
		for _, gap := range r.Gaps {
			itls[i] = append(itls[i], gap.Seconds())
		}
	}
	o.add("input_lens", inputs)
	o.add("output_lens", outputs)
	o.add("ttfts", ttfts)
	o.add("itls", itls)
	o.add("start_times", starts)
	if !o.has("generated_texts") {
		o.add("generated_texts", make([]string, n))
	}
	o.add("errors", errs)
}

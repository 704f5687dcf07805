package smi

import (
	"strings"
)

// NVIDIA reads what nvidia-smi prints with --format=csv,noheader,nounits for a query of fields: a line for each GPU, with
// a value for each field. Indices are those of the field "index", or the order of the lines. other are the lines in
// which it says something else: of a GPU that is lost, or why it knows of none.
func NVIDIA(fields string, lines ...string) (gpus []GPU, other []string) {
	rows, other := Rows(fields, lines...)
	for i, row := range rows {
		g := GPU{i, row}
		if n, ok := row.At("index").Number(); ok {
			g.Index = int(n)
		}
		gpus = append(gpus, g)
	}
	return gpus, other
}

// Rows are the values of each line, by their fields; the last takes what is left of a line. other are lines of another form.
func Rows(fields string, lines ...string) (rows []Object, other []string) {
	names := strings.Split(fields, ",")
	for _, line := range lines {
		values := strings.SplitN(line, ", ", len(names))
		row := Object{}
		for i, name := range names[:min(len(names), len(values))] {
			row[name] = values[i]
		}
		n, isIndex := row.At("index").Number()
		_, hasIndex := row["index"]
		switch {
		case len(row) == len(names) && (!hasIndex || isIndex && n < maxGPUs && n == float64(int(n))):
			rows = append(rows, row)
		case strings.TrimSpace(line) != "":
			other = append(other, line)
		}
	}
	return rows, other
}

package bundle

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"hclbench/results"
	"hclbench/results/door"
)

// visitor is told what bundle.json holds.
type visitor struct {
	run        func(results.Run) error
	deployment func(results.Deployment) error
	cell       func(results.Cell) error
	recorded   func(id string) error
	event      func(results.Event) error
}

// each reads bundle.json, one thing after the other, each made fit to be kept.
func (in *Incoming) each(v visitor) error {
	f, err := os.Open(in.index)
	if err != nil {
		return err
	}
	defer f.Close()
	d := door.NewThings(f, in.limits.element)
	is, run := 0, results.Run{}
	err = d.Members(func(name string) error {
		switch name {
		case "bundle_version":
			err := d.Next(&is)
			if err == nil && is != version {
				err = fmt.Errorf("it has version %d of the format, this hcl knows %d", is, version)
			}
			return err
		case "run":
			return first(func() error { return d.Next(&run) }, func() error { return door.Run(&run) }, func() error { return v.run(run) })
		case "deployments":
			return door.Each(d, func(x *results.Deployment) error {
				return first(func() error { return door.Deployment(x, run.ID) }, func() error { return v.deployment(*x) })
			})
		case "cells":
			return door.Each(d, func(x *results.Cell) error {
				return first(func() error { return door.Cell(x, run.ID) }, func() error { return v.cell(*x) })
			})
		case "recorded":
			return door.Each(d, func(id *string) error { return v.recorded(*id) })
		case "events":
			return door.Each(d, func(x *results.Event) error {
				return first(func() error { return door.Event(x) }, func() error { return v.event(*x) })
			})
		}
		return d.Next(new(json.RawMessage))
	})
	if err == nil && (is == 0 || run.ID == "") {
		err = errors.New("it names no version or no run")
	}
	return err
}

// first does one thing after the other, until the first error.
func first(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

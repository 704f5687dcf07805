package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"hclbench/agent"
	"hclbench/engines"
	"hclbench/origin"
	"hclbench/plain"
	"hclbench/provision"
)

// hubWithin bounds how long the hub is asked about one model.
const hubWithin = 20 * time.Second

// models says of each model that engines use whether it is there, and where it will
// come from.
func (c *checker) models(ctx context.Context) ([]provision.Finding, error) {
	var findings []provision.Finding
	var seen []*engines.Model
	for _, e := range c.engines {
		if e.Model == nil || !engines.Real(e) || slices.Contains(seen, e.Model) {
			continue
		}
		seen = append(seen, e.Model)
		f, err := c.model(ctx, e)
		if err != nil {
			return nil, err
		}
		f.Check, f.Want = "model "+e.Model.Name, e.Model.Repo
		if e.Model.Revision != "" {
			f.Want += " at " + e.Model.Revision
		}
		findings = append(findings, f)
	}
	return findings, nil
}

// model says it of the model of one engine.
func (c *checker) model(ctx context.Context, e *engines.Engine) (provision.Finding, error) {
	m := e.Model
	if path.IsAbs(m.Repo) {
		there, err := agent.ModelIn(ctx, c.conn, onHost(engines.Container(e), m.Repo))
		if err != nil {
			return provision.Finding{}, err
		}
		if err := there.Whole(); err != nil {
			return provision.Finding{Level: provision.Blocked, Have: line(err), Advice: copyAgain}, nil
		}
		return provision.Finding{Level: provision.OK, Have: whole(there.Files())}, nil
	}
	cache := hubCache(e)
	if cache == "" {
		return provision.Finding{Level: provision.Warning, Have: "kept nowhere", Advice: keepIt}, nil
	}
	there, err := agent.ModelInCache(ctx, c.conn, cache, m.Repo, m.Revision)
	if err != nil {
		return provision.Finding{}, err
	}
	hub := c.hub
	if !m.Download {
		hub.Token = tokenOf(e) // as the engine will ask
	}
	files, err := askHub(ctx, hub, m)
	switch {
	case err != nil && ctx.Err() != nil:
		return provision.Finding{}, context.Cause(ctx)
	case err != nil && there.Whole() == nil:
		return provision.Finding{Level: provision.OK, Have: whole(there.Files()) + ", as it says itself"}, nil
	case err != nil:
		return c.unasked(m, there, err), nil
	}
	now, missing := there.Missing(files)
	if len(missing) == 0 {
		return provision.Finding{Level: provision.OK, Have: whole(now.Files, now.Total)}, nil
	}
	return c.coming(ctx, e, hub, there, now, missing), nil
}

// unasked is a model that is not whole, and of which the hub tells nothing.
func (c *checker) unasked(m *engines.Model, there agent.ModelThere, err error) provision.Finding {
	f := provision.Finding{Level: provision.Warning, Have: "not there"}
	if n, size := there.Files(); n > 0 {
		f.Have = fmt.Sprintf("%s of it there, %s", plain.Bytes(size), line(there.Whole()))
	}
	refused := errors.Is(err, origin.ErrAccess) || errors.Is(err, origin.ErrNotFound)
	switch {
	case refused && m.Download:
		f.Level, f.Advice = provision.Blocked, "it cannot be downloaded: "+line(err)
	case errors.Is(err, origin.ErrNotFound):
		f.Advice = "the engine will not find it: " + line(err)
	case refused:
		f.Advice = "the engine may not get it: " + line(err) + "; " + giveToken
	default:
		f.Advice = "this machine cannot ask how much is missing: " + line(err) + "; the host asks for itself"
	}
	return f
}

// What to do about a model that is not there, or not whole.
const (
	copyAgain = "no engine can load it: copy it there again, or correct repo"
	giveToken = "give the engine one with env = { HF_TOKEN = sensitive(env(\"HF_TOKEN\")) }, " +
		"or write download = true into the model's block and set HF_TOKEN here"
	keepIt = "each start of an engine fetches it anew: write cache = \"/data/huggingface\" into its block, " +
		"and download = true to have it there before"
	fetchFirst = "the engine fetches it as it starts, without a check of what comes: " +
		"write download = true into the model's block, and hcl has it there before"
	makeRoom = "%s are still to come and there is no room on %s: make some, " +
		"or give the model a cache on another disk"
)

// coming is a model that is not there, or not whole, and will be fetched.
func (c *checker) coming(ctx context.Context, e *engines.Engine, hub origin.Hub,
	there agent.ModelThere, now agent.ModelProgress, missing []origin.File) provision.Finding {
	m, room := e.Model, now.Total-now.Bytes
	f := provision.Finding{Level: provision.OK, Have: "not there, " + plain.Bytes(room)}
	if now.Bytes > 0 {
		f.Have = fmt.Sprintf("%s of %s there, without %s", plain.Bytes(now.Bytes), plain.Bytes(now.Total), some(missing))
	}
	free, known := c.free[there.Mount]
	if !known {
		free = there.Free
	}
	if there.Mount != "" {
		f.Have += fmt.Sprintf("; %s of disk free", plain.Bytes(free))
	}
	smallest := slices.MinFunc(missing, func(a, b origin.File) int { return cmp.Compare(a.Size, b.Size) })
	err := mayRead(ctx, hub, m, smallest)
	switch {
	case there.Mount != "" && free < room:
		f.Level, f.Advice = provision.Blocked, fmt.Sprintf(makeRoom, plain.Bytes(room), there.Mount)
		return f
	case m.Download && err != nil:
		f.Level, f.Advice = provision.Blocked, "it cannot be downloaded: "+line(err)
	case m.Download:
		f.Have += "; hcl downloads it first"
	case err != nil:
		f.Level, f.Advice = provision.Warning, "the engine may not get it: "+line(err)+"; "+giveToken
	default:
		f.Level, f.Advice = provision.Warning, fetchFirst
	}
	c.free[there.Mount] = free - room
	return f
}

// askHub is what the hub says that a model's files are.
func askHub(ctx context.Context, hub origin.Hub, m *engines.Model) ([]origin.File, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, hubWithin, fmt.Errorf("no answer within %s", hubWithin))
	defer cancel()
	_, files, err := agent.ModelFiles(ctx, hub, m.Repo, m.Revision)
	return files, cmp.Or(context.Cause(ctx), err)
}

// mayRead says why the hub does not let a file of a model be read: of a gated model
// everybody may see the names. Errors that do not mean that are none.
func mayRead(ctx context.Context, hub origin.Hub, m *engines.Model, f origin.File) error {
	ctx, cancel := context.WithTimeout(ctx, hubWithin)
	defer cancel()
	body, _, err := hub.Open(ctx, m.Repo, cmp.Or(m.Revision, "main"), f.Path, 0)
	if errors.Is(err, origin.ErrAccess) {
		return err
	}
	if err == nil {
		body.Close()
	}
	return nil
}

// hubCache is Hugging Face's cache directory of the host that an engine uses; empty
// when what it fetches is gone with its container.
func hubCache(e *engines.Engine) string {
	ct := engines.Container(e)
	at := "~/.cache/huggingface"
	if engines.Runtime(e) == provision.Docker {
		at = "/root/.cache/huggingface"
	}
	if i := slices.IndexFunc(ct.Env, func(v provision.EnvVar) bool { return v.Name == "HF_HOME" }); i >= 0 {
		at = ct.Env[i].Value.Reveal()
	}
	if engines.Runtime(e) == provision.Process {
		return at
	}
	mounted := slices.ContainsFunc(ct.Mounts, func(m provision.Mount) bool { return m.Target == at })
	if source := onHost(ct, at); mounted || source != at {
		return source
	}
	return ""
}

// tokenOf is what an engine shows the hub.
func tokenOf(e *engines.Engine) string {
	for _, v := range e.Env {
		if v.Name == "HF_TOKEN" || v.Name == "HUGGING_FACE_HUB_TOKEN" {
			return v.Value.Reveal()
		}
	}
	return ""
}

func whole(files int, size int64) string {
	return "whole, " + plain.Count(files, "file") + ", " + plain.Bytes(size)
}

// some names files, not all of many.
func some(files []origin.File) string {
	const most = 3
	var names []string
	for _, f := range files[:min(most, len(files))] {
		names = append(names, f.Path)
	}
	s := strings.Join(names, ", ")
	if more := len(files) - most; more > 0 {
		s += fmt.Sprintf(" and %d more", more)
	}
	return s
}

// line is an error in one line.
func line(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

package plan

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"hclbench/engines"
	"hclbench/hcl"
	"hclbench/load"
	"hclbench/lock"
	"hclbench/origin"
	"hclbench/provision"
)

// Names is everything in the lab whose name can mean something else tomorrow.
func Names(cfg *hcl.Config) (w lock.Wants) {
	image := func(name string) {
		if ref, err := origin.ParseRef(name); err == nil && !ref.Pinned() {
			w.Images = append(w.Images, name)
		}
	}
	for _, h := range cfg.Hosts {
		if h.Cluster != nil {
			image(h.Cluster.Image)
		}
	}
	for _, whole := range cfg.Engines {
		for _, e := range whole.Engines() {
			if engines.InImage(e) {
				for _, name := range images(e) {
					image(*name)
				}
			}
			if engines.FromHub(e) && !lock.Commit(e.Model.Revision) {
				w.Models = append(w.Models, modelOf(e.Model))
			}
		}
	}
	for d := range datasets(cfg) {
		if d.Path != "" && d.SHA256 == "" { // the lab leaves its checksum open
			w.Datasets = append(w.Datasets, d.Path)
		}
		if d.Shots != "" && d.ShotsSHA256 == "" {
			w.Datasets = append(w.Datasets, d.Shots)
		}
		for _, path := range []string{d.Tokenizer, d.ImageDir} {
			if path != "" {
				w.Datasets = append(w.Datasets, path)
			}
		}
	}
	return w
}

// images are the names of images in a recipe.
func images(recipe *engines.Engine) []*string {
	names := []*string{&recipe.Image}
	if recipe.Build != nil {
		names = append(names, &recipe.Build.Image)
	}
	return names
}

func modelOf(m *engines.Model) lock.Model { return lock.Model{Repo: m.Repo, Revision: m.Revision} }

// datasets are those of a lab's cells, to be changed.
func datasets(cfg *hcl.Config) iter.Seq[*load.Dataset] {
	return func(yield func(*load.Dataset) bool) {
		for _, b := range cfg.Benchmarks {
			for i := range b.Cells {
				if !yield(&b.Cells[i].Workload.Dataset) {
					return
				}
			}
		}
		for _, t := range cfg.Tunes {
			for _, cells := range [][]hcl.Cell{t.Loads, t.Checks} {
				for i := range cells {
					if !yield(&cells[i].Workload.Dataset) {
						return
					}
				}
			}
		}
	}
}

// Locked is the lab with what is locked put in: images by digest beside their tag, models by commit. The lab itself
// stays as it is. Its data sets are locked by [Sums.Lock].
func Locked(cfg *hcl.Config, f *lock.File) *hcl.Config {
	out := new(*cfg)
	pinned := func(name string) string {
		if digest := f.Images[name]; digest != "" {
			return name + "@" + digest
		}
		return name
	}
	clusters, hosts := map[*provision.Cluster]*provision.Cluster{}, map[*provision.Host]*provision.Host{}
	host := func(h *provision.Host) *provision.Host {
		if h == nil || h.Cluster == nil {
			return h
		}
		if hosts[h] == nil {
			if clusters[h.Cluster] == nil {
				c := new(*h.Cluster)
				c.Image, clusters[h.Cluster] = pinned(c.Image), c
			}
			hosts[h] = new(*h)
			hosts[h].Cluster = clusters[h.Cluster]
		}
		return hosts[h]
	}
	models := map[*engines.Model]*engines.Model{}
	recipe := func(_ string, recipe *engines.Engine) *engines.Engine {
		locked := new(*recipe)
		if recipe.Build != nil {
			locked.Build = new(*recipe.Build)
		}
		for _, name := range images(locked) {
			*name = pinned(*name)
		}
		if engines.FromHub(recipe) {
			if models[recipe.Model] == nil {
				m := new(*recipe.Model)
				m.Revision = cmp.Or(f.Models[modelOf(m).Key()], m.Revision)
				models[recipe.Model] = m
			}
			locked.Model = models[recipe.Model]
		}
		return locked
	}
	all := map[*engines.Engine]*engines.Engine{}
	engine := func(e *engines.Engine) *engines.Engine {
		if all[e] == nil {
			all[e] = e.With(recipe).Moved(host)
		}
		return all[e]
	}
	out.Hosts, out.Engines, out.Benchmarks = nil, nil, nil
	for _, h := range cfg.Hosts {
		out.Hosts = append(out.Hosts, host(h))
	}
	for _, e := range cfg.Engines {
		out.Engines = append(out.Engines, engine(e))
	}
	lockedCells := func(cells []hcl.Cell) []hcl.Cell {
		cells = slices.Clone(cells)
		for i, c := range cells {
			cells[i].Engine = engine(c.Engine)
			cells[i].From = slices.Clone(c.From)
			for n, h := range c.From {
				cells[i].From[n] = host(h)
			}
		}
		return cells
	}
	for _, b := range cfg.Benchmarks {
		b.Cells = lockedCells(b.Cells)
		out.Benchmarks = append(out.Benchmarks, b)
	}
	out.Tunes = nil
	for _, t := range cfg.Tunes {
		out.Tunes = append(out.Tunes, t.With(engine, lockedCells))
	}
	return out
}

// Content is a data file of a lab, or what is read of a text, which may be less than there is.
type Content struct {
	Path string
	Read bool // what is read of it
}

// Contents are those whose checksums tell one cell from another, each once: of a text what is read of it, and all
// of it only where the lock has that.
func Contents(cfg *hcl.Config, f *lock.File) (all []Content) {
	add := func(c Content) {
		if !slices.Contains(all, c) {
			all = append(all, c)
		}
	}
	for d := range datasets(cfg) {
		for _, path := range d.Inputs() {
			text := path == d.Path && d.Kind == load.Text
			if text {
				add(Content{path, true})
			}
			if !text || f.Datasets[path] != "" {
				add(Content{path, false})
			}
		}
	}
	return all
}

// DataFile is a file that a data set reads, and the checksum that it should have, in hex.
type DataFile struct{ Path, SHA256 string }

// Sums are the checksums of [Contents], in hex; what is not there has none.
type Sums map[Content]string

// Lock gives the data sets of a lab the checksums of their files, so that another content is another cell: those that the
// lab says, or a lock at this path, or else the files' own. It returns the files that are not what is said of them.
func (is Sums) Lock(cfg *hcl.Config, f *lock.File, path string) (strange map[DataFile]error) {
	strange = map[DataFile]error{}
	hold := func(file DataFile, got, want, by string) {
		if got != "" && want != "" && got != want {
			strange[file] = fmt.Errorf("its sha256 is %s, and not %s as %s says", got, want, by)
		}
	}
	found := func(path string) string { return is[Content{Path: path}] }
	locked := func(path string) string { return strings.TrimPrefix(f.Datasets[path], "sha256:") }
	for d := range datasets(cfg) {
		said := strings.ToLower(d.SHA256)
		read, sum := found(d.Path), cmp.Or(locked(d.Path), found(d.Path))
		if d.Kind == load.Text { // what is read of it; all of it has a checksum of its own, and the lock that
			read = is[Content{d.Path, true}]
			sum = read
		}
		d.SHA256 = cmp.Or(said, sum)
		if said != "" {
			hold(DataFile{d.Path, said}, read, said, "the lab")
		} else {
			hold(DataFile{d.Path, sum}, found(d.Path), locked(d.Path), path)
		}
		shots := d.ShotsSHA256
		d.ShotsSHA256 = cmp.Or(shots, locked(d.Shots), found(d.Shots))
		hold(DataFile{d.Shots, d.ShotsSHA256}, found(d.Shots), d.ShotsSHA256, map[bool]string{true: path, false: "the lab"}[shots == ""])
		d.TokenizerSHA256 = cmp.Or(locked(d.Tokenizer), found(d.Tokenizer))
		hold(DataFile{d.Tokenizer, d.TokenizerSHA256}, found(d.Tokenizer), locked(d.Tokenizer), path)
		d.ImageDirSHA256 = cmp.Or(locked(d.ImageDir), found(d.ImageDir))
		hold(DataFile{d.ImageDir, d.ImageDirSHA256}, found(d.ImageDir), locked(d.ImageDir), path)
	}
	return strange
}

// Inputs are the data files that cells to be measured read, each once, with one that does.
func (p *Plan) Inputs() iter.Seq2[*Cell, DataFile] {
	return func(yield func(*Cell, DataFile) bool) {
		seen := map[DataFile]bool{{}: true}
		for _, d := range p.Deployments {
			for _, c := range d.ToDo() {
				set := c.Task.Stored().Prompts().Dataset
				for _, f := range []DataFile{{set.Path, set.SHA256}, {set.Tokenizer, set.TokenizerSHA256}, {set.ImageDir, set.ImageDirSHA256}, {set.Shots, set.ShotsSHA256}} {
					if f.Path == "" || seen[f] {
						continue
					}
					if seen[f] = true; !yield(c, f) {
						return
					}
				}
			}
		}
	}
}

package hcl

import (
	"cmp"
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// NameOf is the lab's name as its text says it: the label of the lab block, else the
// directory's name. Nothing is evaluated, so it needs no variables. An error when a
// file does not parse and none of the others has a lab block: the name may stand in
// what was lost.
func NameOf(src *Source) (string, error) {
	names, _ := src.labFiles()
	var broken error
	for _, name := range names {
		f, diags := hclsyntax.ParseConfig(src.Files[name], name, hcl.InitialPos)
		body, ok := f.Body.(*hclsyntax.Body)
		if diags.HasErrors() || !ok {
			broken = cmp.Or(broken, fmt.Errorf("read the lab's name: %s does not parse; hcl validate shows why", name))
			continue
		}
		for _, b := range body.Blocks {
			if b.Type == "lab" && len(b.Labels) == 1 && labName.form.MatchString(b.Labels[0]) {
				return b.Labels[0], nil
			}
		}
	}
	if broken != nil {
		return "", broken
	}
	return dirName(src.Dir), nil
}

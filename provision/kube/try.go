package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"hclbench/plain"
	"hclbench/provision"
)

// Try asks the API server what it would make of an object that [RootManifest] or [Manifest] has made:
// rights, admission, quota. Nothing is made. adds is what the cluster itself would set in the pod,
// "tolerations: {key: nvidia.com/gpu, operator: Exists}".
func (c *Client) Try(ctx context.Context, manifest map[string]any) (adds []string, err error) {
	_, adds, err = c.try(ctx, manifest)
	return adds, err
}

// Refused reports whether the API server has said no, of the errors of a [Client].
func Refused(err error) bool {
	_, no := errors.AsType[*status](err)
	return no && !away(err)
}

// try is [Client.Try], and the pod as the cluster would have it. Of a Job that is the pod of its template.
func (c *Client) try(ctx context.Context, manifest object) (made object, adds []string, err error) {
	resource := strings.ToLower(manifest["kind"].(string)) + "s"
	dry := url.Values{"dryRun": {"All"}}
	if resource == "namespaces" {
		return nil, nil, nil // it was made, or will be: only then is there more to ask
	}
	err = c.do(ctx, request{method: http.MethodPost, path: c.in(resource), query: dry, body: manifest}, &made)
	if err != nil {
		return nil, nil, err
	}
	if resource == "jobs" {
		return c.try(ctx, podOfJob(manifest))
	}
	return made, added(manifest, made), nil
}

const mayNot = "you may not %s, and hcl deletes what it makes: ask who runs the cluster for that right, see `%s auth " +
	"can-i --list -n %s`"

// TryObjects asks the API server what it would say to each object of manifests that a run of the lab made, one
// error each, and whether it could be looked at and deleted. Nothing is made.
func (c *Client) TryObjects(ctx context.Context, run RunOf, objects []provision.Object) []error {
	m := made(&Root{RunOf: run, client: c, uid: nobody}, nil)
	planned, errs := m.try(ctx, objects, nil)
	for i, p := range planned {
		resource, group, _ := strings.Cut(p.kind, ".")
		for _, verb := range []string{"get", "delete"} {
			if errs[i] != nil {
				break
			}
			a := access{verb: verb, group: group, resource: resource}
			may, err := c.may(ctx, a)
			if err == nil && !may {
				err = provision.Fail(c.host, provision.ErrForbidden, mayNot, a, c.kubectl, c.namespace)
			}
			errs[i] = err
		}
	}
	return errs
}

// nobody is the uid of a root that is not there yet.
const nobody = "00000000-0000-0000-0000-000000000000"

// podOfJob is the pod of a Job's template.
func podOfJob(job object) object {
	template := job["spec"].(object)["template"].(object)
	meta := maps.Clone(template["metadata"].(object))
	meta["generateName"] = "hcl-"
	return object{"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": template["spec"]}
}

// added is what of a pod was not asked for, but for what every cluster sets.
func added(asked, made object) (all []string) {
	text, _ := json.Marshal(asked)
	var plainly object // as JSON has it, as made is
	_ = json.Unmarshal(text, &plainly)
	d := &difference{}
	for _, part := range []string{"labels", "annotations"} {
		from, _ := plainly["metadata"].(object)
		to, _ := made["metadata"].(object)
		d.look(part, from[part], to[part])
	}
	d.look("", plainly["spec"], made["spec"])
	return d.found
}

type difference struct{ found []string }

// usualSet are what every API server sets in a pod that does not say it.
var usualSet = []string{
	"containers.imagePullPolicy: Always", "containers.imagePullPolicy: IfNotPresent",
	"containers.terminationMessagePath: /dev/termination-log", "containers.terminationMessagePolicy: File",
	"dnsPolicy: ClusterFirst", "schedulerName: default-scheduler",
	"priority: 0", "preemptionPolicy: PreemptLowerPriority", "serviceAccount: default", "serviceAccountName: default",
	"tolerations: {effect: NoExecute, key: node.kubernetes.io/not-ready, operator: Exists, tolerationSeconds: 300}",
	"tolerations: {effect: NoExecute, key: node.kubernetes.io/unreachable, operator: Exists, tolerationSeconds: 300}",
}

// look finds what was made and not asked for, below a path.
func (d *difference) look(path string, asked, made any) {
	switch now := made.(type) {
	case object:
		was, _ := asked.(object)
		for _, name := range slices.Sorted(maps.Keys(now)) {
			if path == "" && name == "serviceAccount" && was["serviceAccountName"] != nil {
				continue // its old name
			}
			d.look(strings.TrimPrefix(path+"."+name, "."), was[name], now[name])
		}
		return
	case []any:
		was, _ := asked.([]any)
		for _, e := range now {
			if p := partner(was, e); p != nil {
				d.look(path, p, e)
			} else {
				d.add(path, e)
			}
		}
		return
	}
	if !sameJSON(asked, made) && made != nil {
		d.add(path, made)
	}
}

func (d *difference) add(path string, made any) {
	if s := path + ": " + flowStyle(made); !slices.Contains(usualSet, s) {
		d.found = append(d.found, s)
	}
}

// partner is the element of a list that another came from: it has its name, or is what it was.
func partner(list []any, e any) any {
	i := slices.IndexFunc(list, func(o any) bool {
		a, isObject := o.(object)
		b, also := e.(object)
		return isObject && also && a["name"] != nil && a["name"] == b["name"] || sameJSON(o, e)
	})
	if i < 0 {
		return nil
	}
	return list[i]
}

// sameJSON compares values as JSON has them; "64Gi" is "68719476736".
func sameJSON(a, b any) bool {
	var x, y quantity
	q, isText := a.(string)
	r, also := b.(string)
	if isText && also && x.UnmarshalJSON([]byte(q)) == nil && y.UnmarshalJSON([]byte(r)) == nil {
		return x == y
	}
	return flowStyle(a) == flowStyle(b)
}

// longestValue is how much of a value people are shown.
const longestValue = 200

// flowStyle is a value in one line, as YAML has it: "{key: nvidia.com/gpu, operator: Exists}".
func flowStyle(v any) string {
	var parts []string
	switch v := v.(type) {
	case object:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, name+": "+flowStyle(v[name]))
		}
		return plain.Cut("{"+strings.Join(parts, ", ")+"}", longestValue)
	case []any:
		for _, e := range v {
			parts = append(parts, flowStyle(e))
		}
		return plain.Cut("["+strings.Join(parts, ", ")+"]", longestValue)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return cmp.Or(plain.Cut(plain.Line(fmt.Sprint(v)), longestValue), `""`)
}

// Command hcl-rent-runpod rents pods of RunPod's secure cloud (https://docs.runpod.io/api-reference, https://graphql-spec.runpod.io).
// It wants RUNPOD_API_KEY, and speaks to RUNPOD_URL in place of both APIs where there is one.
//
// A pod is a container, so the host block says runtime = "process", and the image has to start an SSH server that lets in
// $PUBLIC_KEY, as RunPod's own images do. A pod bears its request as its name, and its labels in its variable HCL_LABELS, from the
// create on. Each create sets terminateAfter; as RunPod does not tell it of a pod, it is not told to hcl as a hard end. Labels
// stay as they are: a change of variables would start the container anew.
//
// In spec stand gpu, RunPod's name of the GPU ("NVIDIA H200"), gpus, how many of them ("1"), image, and disk, the container's, in GB
// ("100").
//
// It was written from the published references and RunPod's own client, and tested against a fake of them, never against an account.
// What they leave open: which errors come of a create without stock or money (so they count as unknown, and the pod is looked for);
// whether a pod that was ended is told with the status TERMINATED, or no more (both count as gone); and whether costPerHr has the
// disk (a pod that is dearer than its offer is given back).
package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"hclbench/plain"
	"hclbench/plugins/api"
	"hclbench/provision/rent/protocol"
)

// labels is the variable of a pod that has its labels, as JSON.
const labels = "HCL_LABELS"

// pod is a pod as the REST API tells it.
type pod struct {
	ID            string            `json:"id"`
	Name          string            `json:"name"`
	DesiredStatus string            `json:"desiredStatus"` // RUNNING, EXITED, TERMINATED
	CostPerHr     json.Number       `json:"costPerHr"`     // USD, of all GPUs; a number or a text
	LastStartedAt string            `json:"lastStartedAt"`
	PublicIP      string            `json:"publicIp"`
	PortMappings  map[string]int    `json:"portMappings"` // of ports inside to those outside
	Env           map[string]string `json:"env"`
}

func main() { protocol.Main(answer) }

type runpod struct{ rest, graph api.Client }

func answer(q protocol.Request) (a protocol.Answer, err error) {
	key := os.Getenv("RUNPOD_API_KEY")
	if key == "" {
		return a, &protocol.Error{Code: protocol.Refused, Message: "RUNPOD_API_KEY is not set: say it in env of the rent block"}
	}
	client := func(base string) api.Client {
		base = cmp.Or(os.Getenv("RUNPOD_URL"), base)
		return api.Client{Base: base, Header: "Authorization", Scheme: "Bearer ", Key: key}
	}
	r := runpod{rest: client("https://rest.runpod.io"), graph: client("https://api.runpod.io")}
	defer func() { a.Now = r.rest.Now }()
	switch q.Verb {
	case protocol.Capable:
		a.Capabilities = &protocol.Capabilities{List: true}
		if a.Capabilities.Account, err = r.account(); err == nil {
			_, err = r.list() // which tells the clock, and whether the key is good
		}
	case protocol.Offers:
		a.Offers, err = r.offers(q.Spec)
	case protocol.Create:
		a.Box, err = r.create(q)
	case protocol.List:
		a.Boxes, err = r.list()
	case protocol.Status:
		a.Box, err = r.status(q)
	case protocol.Delete:
		if q.ID == "" { // nobody knows it
			var box *protocol.Box
			if box, err = r.status(q); err != nil {
				return a, err
			}
			q.ID = box.ID
		}
		err = r.rest.Ask("DELETE", "/v1/pods/"+url.PathEscape(q.ID), nil, nil)
		if told, is := errors.AsType[*protocol.Error](err); is && told.Code == protocol.NotFound {
			err = nil
		}
	default:
		err = &protocol.Error{Code: protocol.Refused, Message: "hcl-rent-runpod cannot " + strconv.Quote(q.Verb)}
	}
	return a, err
}

// query asks the GraphQL API. What it calls errors may have been done.
func (r *runpod) query(text string, variables map[string]any, out any) error {
	var said struct {
		Data   json.RawMessage `json:"data"`
		Errors []struct {
			Message string `json:"message"`
		} `json:"errors"`
	}
	if err := r.graph.Ask("POST", "/graphql", map[string]any{"query": text, "variables": variables}, &said); err != nil {
		return err
	}
	if len(said.Errors) > 0 {
		return errors.New("RunPod says: " + plain.Cut(plain.NewSecrets(r.graph.Key).Line(said.Errors[0].Message), 300))
	}
	return json.Unmarshal(said.Data, out)
}

// account is what RunPod calls the account of the key.
func (r *runpod) account() (string, error) {
	var found struct {
		Myself *struct {
			ID string `json:"id"`
		} `json:"myself"`
	}
	if err := r.query(`query account { myself { id } }`, nil, &found); err != nil {
		return "", err
	}
	if found.Myself == nil || found.Myself.ID == "" {
		return "", errors.New("RunPod does not tell whose key this is")
	}
	return found.Myself.ID, nil
}

// wanted is what a spec asks for.
type wanted struct {
	gpu, image string
	gpus, disk int
}

func read(spec map[string]string) (w wanted, err error) {
	w = wanted{gpu: spec["gpu"], image: spec["image"]}
	if w.gpus, err = strconv.Atoi(cmp.Or(spec["gpus"], "1")); err == nil {
		w.disk, err = strconv.Atoi(cmp.Or(spec["disk"], "100"))
	}
	for name := range spec {
		if !slices.Contains([]string{"gpu", "gpus", "image", "disk"}, name) {
			err = errors.Join(err, fmt.Errorf("there is no %q", name))
		}
	}
	if err != nil || w.gpu == "" || w.image == "" || w.gpus < 1 || w.disk < 1 {
		return w, &protocol.Error{Code: protocol.Refused, Message: fmt.Sprintf("spec of RunPod has gpu and image, and may have gpus and disk, which are numbers (%v)", err)}
	}
	return w, nil
}

// offers is the one kind of pod that the spec asks for, if there is one now. Prices of the API are in USD an hour, of one GPU.
func (r *runpod) offers(spec map[string]string) ([]protocol.Offer, error) {
	w, err := read(spec)
	if err != nil {
		return nil, err
	}
	var found struct {
		GPUTypes []struct {
			ID          string  `json:"id"`
			SecurePrice float64 `json:"securePrice"`
			LowestPrice *struct {
				UninterruptablePrice *float64 `json:"uninterruptablePrice"` // null where there is none
			} `json:"lowestPrice"`
		} `json:"gpuTypes"`
	}
	err = r.query(`query offers($input: GpuLowestPriceInput!) { gpuTypes { id securePrice lowestPrice(input: $input) { uninterruptablePrice } } }`,
		map[string]any{"input": map[string]any{"gpuCount": w.gpus, "secureCloud": true}}, &found)
	if err != nil {
		return nil, err
	}
	for _, t := range found.GPUTypes {
		if t.ID == w.gpu && t.SecurePrice > 0 && t.LowestPrice != nil && t.LowestPrice.UninterruptablePrice != nil {
			return []protocol.Offer{{ID: t.ID, PricePerHour: t.SecurePrice * float64(w.gpus)}}, nil
		}
	}
	return nil, nil
}

func (r *runpod) create(q protocol.Request) (*protocol.Box, error) {
	w, err := read(q.Spec)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(q.Labels)
	if err != nil {
		return nil, err
	}
	var made struct {
		Pod *struct {
			ID string `json:"id"`
		} `json:"podFindAndDeployOnDemand"`
	}
	err = r.query(`mutation create($input: PodFindAndDeployOnDemandInput!) { podFindAndDeployOnDemand(input: $input) { id } }`,
		map[string]any{"input": map[string]any{
			"cloudType": "SECURE", "gpuTypeId": q.Offer, "gpuCount": w.gpus, "imageName": w.image, "containerDiskInGb": w.disk,
			"name": q.Request, "ports": "22/tcp", "startSsh": true, "terminateAfter": q.Deadline.UTC().Format(time.RFC3339),
			"env": []map[string]string{{"key": "PUBLIC_KEY", "value": q.PublicKey}, {"key": labels, "value": string(text)}},
		}}, &made)
	if err != nil {
		return nil, err
	}
	if made.Pod == nil || made.Pod.ID == "" {
		return nil, errors.New("the answer to the create has no pod")
	}
	return r.status(protocol.Request{ID: made.Pod.ID})
}

// status is a pod by its ID, or by its request.
func (r *runpod) status(q protocol.Request) (*protocol.Box, error) {
	if q.ID == "" {
		all, err := r.list()
		if err != nil {
			return nil, err
		}
		for _, b := range all {
			if q.Request != "" && b.Request == q.Request {
				return &b, nil
			}
		}
		return nil, &protocol.Error{Code: protocol.NotFound, Message: "no pod has the request " + q.Request}
	}
	var p pod
	if err := r.rest.Ask("GET", "/v1/pods/"+url.PathEscape(q.ID), nil, &p); err != nil {
		return nil, err
	}
	if p.ID != q.ID {
		return nil, fmt.Errorf("RunPod was asked of pod %q, and answers of %q", q.ID, p.ID)
	}
	return p.box(), nil
}

func (r *runpod) list() (all []protocol.Box, err error) {
	var found *[]pod
	if err := r.rest.Ask("GET", "/v1/pods", nil, &found); err != nil {
		return nil, err
	}
	if found == nil {
		return nil, errors.New("the answer to GET /v1/pods is no list, not even an empty one")
	}
	for _, p := range *found {
		all = append(all, *p.box())
	}
	return all, nil
}

// box is a pod as hcl wants it. One that has stopped costs money for its disk, and does not start by itself.
func (p *pod) box() *protocol.Box {
	b := protocol.Box{ID: p.ID, State: protocol.Pending, User: "root", Labels: map[string]string{}}
	port := p.PortMappings["22"]
	switch {
	case p.DesiredStatus == "TERMINATED":
		b.State = protocol.Gone
	case p.DesiredStatus == "EXITED":
		b.State = protocol.Failed
	case p.DesiredStatus == "RUNNING" && p.PublicIP != "" && port > 0:
		b.State, b.Address = protocol.Running, net.JoinHostPort(p.PublicIP, strconv.Itoa(port))
	}
	if json.Unmarshal([]byte(p.Env[labels]), &b.Labels) != nil || b.Labels == nil {
		b.Labels = map[string]string{}
	}
	if b.Labels[protocol.LabelRequest] == "" && strings.HasPrefix(p.Name, "hcl-") {
		b.Labels[protocol.LabelRequest] = p.Name
	}
	b.Request = b.Labels[protocol.LabelRequest]
	b.PricePerHour, _ = p.CostPerHr.Float64() // none is not told
	b.BilledFrom, _ = time.Parse(time.RFC3339, p.LastStartedAt)
	return &b
}

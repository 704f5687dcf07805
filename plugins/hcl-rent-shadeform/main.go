// Command hcl-rent-shadeform rents boxes of many clouds from Shadeform (https://docs.shadeform.ai/api-reference). It wants
// SHADEFORM_API_KEY, and speaks to SHADEFORM_URL where there is one.
//
// Shadeform itself ends a box at its deadline and when it has cost too much (auto_delete), and lists boxes with their tags. A
// box bears its request as its name and in a tag, from the create on. The key of the lab is added to the account's SSH keys once.
//
// In spec may stand what an offer has to be of (cloud, region, type: Shadeform's names) and os, one of the type's os_options;
// without it Shadeform chooses. Offers of containers, which run no containers, are left out.
//
// It was written from the published reference and tested against a fake of it, never against an account. What the reference
// leaves open: which errors come of a create without stock or quota (so they count as unknown, and the box is looked for); the
// unit of cost_estimate (so the cost is not told, and hcl counts by price and time); from when a box is billed (taken as
// created_at, the earlier; by the reference it is not billed any more once it is being deleted); whether hourly_price has the platform fee (an older version says that it has not); what /info says of
// a box that was deleted (404 and the status "deleted" count as gone); which characters a tag may have; and whether two SSH keys may have
// one name (so each has its own).
package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"hclbench/plugins/api"
	"hclbench/provision/rent/protocol"
)

// instanceType is a kind of box of one cloud, in its regions. Prices are in cents an hour, of the whole box.
type instanceType struct {
	Cloud             string  `json:"cloud"`
	ShadeInstanceType string  `json:"shade_instance_type"`
	HourlyPrice       float64 `json:"hourly_price"`
	DeploymentType    string  `json:"deployment_type"`
	Configuration     struct {
		NumGPUs int    `json:"num_gpus"`
		GPUType string `json:"gpu_type"`
	} `json:"configuration"`
	Availability []struct {
		Region    string `json:"region"`
		Available bool   `json:"available"`
	} `json:"availability"`
}

// autoDelete is what ends a box. A date is in RFC 3339, an amount in USD.
type autoDelete struct {
	DateThreshold  string `json:"date_threshold,omitempty"`
	SpendThreshold string `json:"spend_threshold,omitempty"`
}

// instance is a box.
type instance struct {
	ID          string      `json:"id"`
	Name        string      `json:"name"`
	IP          string      `json:"ip"`
	SSHUser     string      `json:"ssh_user"`
	SSHPort     int         `json:"ssh_port"`
	Status      string      `json:"status"`
	HourlyPrice float64     `json:"hourly_price"` // cents
	CreatedAt   string      `json:"created_at"`
	DeletedAt   string      `json:"deleted_at"`
	Tags        []string    `json:"tags"`
	AutoDelete  *autoDelete `json:"auto_delete"`
}

func main() { protocol.Main(answer) }

func answer(q protocol.Request) (a protocol.Answer, err error) {
	s := shadeform{api.Client{
		Base: strings.TrimRight(cmp.Or(os.Getenv("SHADEFORM_URL"), "https://api.shadeform.ai/v1"), "/"), Header: "X-API-KEY", Key: os.Getenv("SHADEFORM_API_KEY"),
	}}
	if s.Key == "" {
		return a, &protocol.Error{Code: protocol.Refused, Message: "SHADEFORM_API_KEY is not set: say it in env of the rent block"}
	}
	defer func() { a.Now = s.Now }()
	switch q.Verb {
	case protocol.Capable:
		a.Capabilities = &protocol.Capabilities{Deadline: true, List: true, Extend: true}
		_, err = s.list() // which tells the clock, and whether the key is good
	case protocol.Offers:
		a.Offers, err = s.offers(q.Spec)
	case protocol.Create:
		a.Box, err = s.create(q)
	case protocol.List:
		a.Boxes, err = s.list()
	case protocol.Status:
		a.Box, err = s.status(q)
	case protocol.Delete:
		if q.ID == "" { // nobody knows it
			var box *protocol.Box
			if box, err = s.status(q); err != nil {
				return a, err
			}
			q.ID = box.ID
		}
		err = s.Ask("POST", "/instances/"+url.PathEscape(q.ID)+"/delete", nil, nil)
		if told, is := errors.AsType[*protocol.Error](err); is && told.Code == protocol.NotFound {
			return a, nil
		} else if err == nil {
			a.Box = &protocol.Box{ID: q.ID, State: protocol.Ending, BilledUntil: s.Now.Add(time.Second)} // its clock tells whole seconds
		}
	case protocol.Extend:
		a.Box, err = s.extend(q)
	default:
		err = &protocol.Error{Code: protocol.Refused, Message: "hcl-rent-shadeform knows no verb " + strconv.Quote(q.Verb)}
	}
	return a, err
}

type shadeform struct{ api.Client }

// offers are the boxes that can be had now. An ID is CLOUD/TYPE/REGION.
func (s *shadeform) offers(spec map[string]string) (all []protocol.Offer, err error) {
	for _, name := range slices.Sorted(maps.Keys(spec)) {
		if !slices.Contains([]string{"cloud", "region", "type", "os"}, name) {
			return nil, &protocol.Error{Code: protocol.Refused, Message: fmt.Sprintf("spec of Shadeform has cloud, region, type and os, not %q", name)}
		}
	}
	var found struct {
		InstanceTypes []instanceType `json:"instance_types"`
	}
	if err := s.Ask("GET", "/instances/types?available=true", nil, &found); err != nil {
		return nil, err
	}
	fits := func(name, value string) bool { return spec[name] == "" || spec[name] == value }
	for _, t := range found.InstanceTypes {
		if t.HourlyPrice <= 0 || t.DeploymentType == "container" || !fits("cloud", t.Cloud) || !fits("type", t.ShadeInstanceType) {
			continue
		}
		gpus := ""
		if model, _, _ := strings.Cut(t.Configuration.GPUType, "_"); t.Configuration.NumGPUs > 0 { // A100_80G
			gpus = fmt.Sprintf("%dx%s", t.Configuration.NumGPUs, model)
		}
		for _, at := range t.Availability {
			id := t.Cloud + "/" + t.ShadeInstanceType + "/" + at.Region
			if at.Available && fits("region", at.Region) && strings.Count(id, "/") == 2 {
				all = append(all, protocol.Offer{ID: id, Region: at.Region, GPUs: gpus, PricePerHour: t.HourlyPrice / 100})
			}
		}
	}
	return all, nil
}

func (s *shadeform) create(q protocol.Request) (*protocol.Box, error) {
	place := strings.Split(q.Offer, "/")
	if len(place) != 3 {
		return nil, &protocol.Error{Code: protocol.Refused, Message: fmt.Sprintf("%q is not an offer of Shadeform", q.Offer)}
	}
	key, err := s.sshKey(q.PublicKey)
	if err != nil {
		return nil, api.Before(err)
	}
	end := autoDelete{DateThreshold: date(q.Deadline)}
	if q.MaxSpend > 0 {
		end.SpendThreshold = strconv.FormatFloat(q.MaxSpend, 'f', 2, 64)
	}
	wanted := map[string]any{
		"cloud": place[0], "shade_instance_type": place[1], "region": place[2], "shade_cloud": true, "name": q.Request,
		"ssh_key_id": key, "auto_delete": end, "tags": tags(q.Labels),
	}
	if system := q.Spec["os"]; system != "" {
		wanted["os"] = system
	}
	var made struct {
		ID string `json:"id"`
	}
	if err := s.Ask("POST", "/instances/create", wanted, &made); err != nil {
		return nil, err
	}
	if made.ID == "" {
		return nil, errors.New("the answer to the create has no ID")
	}
	return s.status(protocol.Request{ID: made.ID}) // with the deadline that Shadeform itself tells
}

// sshKey is the ID of a key of the account, which is added where it is not there. Another one may add it at the same time.
func (s *shadeform) sshKey(public string) (string, error) {
	bare := withoutComment(public)
	if id, err := s.findKey(bare); id != "" || err != nil {
		return id, err
	}
	sum := sha256.Sum256([]byte(bare))
	var added struct {
		ID string `json:"id"`
	}
	err := s.Ask("POST", "/sshkeys/add", map[string]string{"name": "hcl-" + hex.EncodeToString(sum[:8]), "public_key": public}, &added)
	if err == nil && added.ID == "" {
		err = errors.New("the answer to a new SSH key has no ID")
	}
	if err != nil {
		if id, _ := s.findKey(bare); id != "" {
			return id, nil
		}
	}
	return added.ID, err
}

// findKey is the ID of a key that the account has; empty: it has none.
func (s *shadeform) findKey(bare string) (string, error) {
	var there struct {
		Keys []struct {
			ID        string `json:"id"`
			PublicKey string `json:"public_key"`
		} `json:"ssh_keys"`
	}
	if err := s.Ask("GET", "/sshkeys", nil, &there); err != nil {
		return "", err
	}
	for _, k := range there.Keys {
		if withoutComment(k.PublicKey) == bare {
			return k.ID, nil
		}
	}
	return "", nil
}

func withoutComment(key string) string {
	words := strings.Fields(key)
	return strings.Join(words[:min(2, len(words))], " ")
}

// status is a box by its ID, or by its request.
func (s *shadeform) status(q protocol.Request) (*protocol.Box, error) {
	if q.ID == "" {
		all, err := s.list()
		if err != nil {
			return nil, err
		}
		for _, b := range all {
			if q.Request != "" && b.Request == q.Request {
				return &b, nil
			}
		}
		return nil, &protocol.Error{Code: protocol.NotFound, Message: "no box has the request " + q.Request}
	}
	var i instance
	if err := s.Ask("GET", "/instances/"+url.PathEscape(q.ID)+"/info", nil, &i); err != nil {
		return nil, err
	}
	if i.ID != q.ID {
		return nil, fmt.Errorf("asked of instance %q, it answers of %q", q.ID, i.ID)
	}
	return i.box(), nil
}

func (s *shadeform) list() (all []protocol.Box, err error) {
	var found struct {
		Instances *[]instance `json:"instances"`
	}
	if err := s.Ask("GET", "/instances", nil, &found); err != nil {
		return nil, err
	}
	if found.Instances == nil {
		return nil, errors.New("the answer to GET /instances has no instances in it, not even none")
	}
	for _, i := range *found.Instances {
		all = append(all, *i.box())
	}
	return all, nil
}

// extend leaves the most that the box may cost as it is.
func (s *shadeform) extend(q protocol.Request) (*protocol.Box, error) {
	var i instance
	path := "/instances/" + url.PathEscape(q.ID)
	if err := s.Ask("GET", path+"/info", nil, &i); err != nil {
		return nil, err
	}
	end := autoDelete{DateThreshold: date(q.Deadline)}
	if i.AutoDelete != nil {
		end.SpendThreshold = i.AutoDelete.SpendThreshold
	}
	if err := s.Ask("POST", path+"/update", map[string]any{"auto_delete": end, "tags": tags(q.Labels)}, nil); err != nil {
		return nil, err
	}
	return s.status(q)
}

// box is an instance as hcl wants it. A state that is new to us is one of a box that costs money and does not run yet.
func (i *instance) box() *protocol.Box {
	b := protocol.Box{ID: i.ID, Labels: map[string]string{}, State: protocol.Pending, User: i.SSHUser, PricePerHour: i.HourlyPrice / 100}
	switch i.Status {
	case "active":
		b.State = protocol.Running
	case "error":
		b.State = protocol.Failed
	case "deleting":
		b.State = protocol.Ending
	case "deleted":
		b.State = protocol.Gone
	}
	for _, tag := range i.Tags {
		if name, value, is := strings.Cut(tag, "="); is {
			b.Labels[name] = value
		}
	}
	if b.Labels[protocol.LabelRequest] == "" && strings.HasPrefix(i.Name, "hcl-") { // a cloud may have lost the tags
		b.Labels[protocol.LabelRequest] = i.Name
	}
	b.Request = b.Labels[protocol.LabelRequest]
	if i.IP != "" {
		b.Address = net.JoinHostPort(i.IP, strconv.Itoa(cmp.Or(i.SSHPort, 22)))
	}
	b.BilledFrom, _ = time.Parse(time.RFC3339, i.CreatedAt)
	b.BilledUntil, _ = time.Parse(time.RFC3339, i.DeletedAt)
	if i.AutoDelete != nil {
		b.Deadline, _ = time.Parse(time.RFC3339, i.AutoDelete.DateThreshold) // none that can be read is none
	}
	return &b
}

func tags(labels map[string]string) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		all = append(all, name+"="+labels[name])
	}
	return all
}

// date is as the reference has it, with the offset in digits.
func date(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05-07:00") }

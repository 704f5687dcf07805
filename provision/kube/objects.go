package kube

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// What is read of objects.
type meta struct {
	Name              string
	UID               string
	ResourceVersion   string
	CreationTimestamp time.Time
	DeletionTimestamp *time.Time
	DeletionGrace     int `json:"deletionGracePeriodSeconds"`
	Finalizers        []string
	OwnerReferences   []involved
	Labels            map[string]string
	Annotations       map[string]string
}

// named is what is read of an object of any kind.
type named struct{ Metadata meta }

// annotation is what an object says of itself, in an annotation or in the label that needs none.
func (m meta) annotation(name string) string {
	if full, ok := m.Annotations[name]; ok {
		return full
	}
	return m.Labels[name]
}

type condition struct {
	Type               string
	Status             string
	Reason             string
	Message            string
	LastTransitionTime time.Time
}

type conditions []condition

// ofType finds the condition of a type; the zero value where there is none.
func (all conditions) ofType(kind string) condition {
	for _, c := range all {
		if c.Type == kind {
			return c
		}
	}
	return condition{}
}

type pod struct {
	Metadata meta
	Spec     podNeeds
	Status   struct {
		Phase                 string
		Reason                string
		Message               string
		PodIP                 string
		Conditions            conditions
		ContainerStatuses     []containerStatus
		InitContainerStatuses []containerStatus
	}
}

// podNeeds is what a pod takes of a node.
type podNeeds struct {
	NodeName     string
	NodeSelector map[string]string
	Tolerations  []toleration
	Containers   []needs
}

type needs struct {
	Resources struct {
		Requests map[string]quantity
		Limits   map[string]quantity
	}
}

type containerStatus struct {
	Name         string
	Image        string
	ImageID      string
	RestartCount int
	LastState    struct{ Terminated *ended }
	State        struct {
		Waiting    *because
		Running    *struct{ StartedAt time.Time }
		Terminated *ended
	}
}

type because struct{ Reason, Message string }

func (b because) String() string { return strings.TrimSuffix(b.Reason+": "+b.Message, ": ") }

type ended struct {
	because
	ExitCode              int
	StartedAt, FinishedAt time.Time
}

// state is of the pod's own container, beside which the cluster may put others; the zero value where the
// node has not told yet.
func (p pod) state() containerStatus {
	for _, s := range p.Status.ContainerStatuses {
		if s.Name == container {
			return s
		}
	}
	return containerStatus{}
}

type job struct {
	Metadata meta
	Spec     struct{ ActiveDeadlineSeconds int }
	Status   struct{ Conditions conditions }
}

type event struct {
	Type           string // "Normal", "Warning"
	Reason         string
	Message        string
	LastTimestamp  time.Time
	InvolvedObject involved
}

// involved is what an event is about.
type involved struct{ APIVersion, Kind, Name, UID string }

type list[T any] struct {
	Metadata struct{ Continue string }
	Items    []T
}

// items lists objects of the namespace.
func items[T any](ctx context.Context, s *server, resource, labels string) ([]T, error) {
	return listAt[T](ctx, s, s.in(resource), url.Values{"labelSelector": {labels}})
}

// page is how many objects come at a time: all of a large cluster are too many for one answer.
const page = 500

// listAt lists objects, page by page. Where the pages have become too old to go on, it begins again.
func listAt[T any](ctx context.Context, s *server, path string, query url.Values) (all []T, err error) {
	query = maps.Clone(query)
	if query == nil {
		query = url.Values{}
	}
	query.Set("limit", strconv.Itoa(page))
	for again := true; ; {
		var part list[T]
		err := s.do(ctx, request{path: path, query: query}, &part)
		if again && hasCode(err, http.StatusGone) {
			all, again = nil, false
			query.Del("continue")
			continue
		}
		if all = append(all, part.Items...); err != nil || part.Metadata.Continue == "" {
			return all, err
		}
		query.Set("continue", part.Metadata.Continue)
	}
}

// events are those about an object, the oldest first. There are none where they may not be read.
func (s *server) events(ctx context.Context, uid string) []event {
	all, err := listAt[event](ctx, s, s.in("events"), url.Values{"fieldSelector": {"involvedObject.uid=" + uid}})
	if err != nil {
		return nil
	}
	return all
}

// digestOf is the digest in what a node says of a container's image: "registry/name@sha256:…".
func digestOf(imageID string) string {
	_, digest, _ := strings.Cut(imageID, "@")
	return digest
}

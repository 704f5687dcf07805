package kube

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"hclbench/plain"
	"hclbench/provision"
)

// seen is what a look at a pod that shall run has shown.
type seen struct {
	runs  bool
	says  string        // for people, of what it waits for; empty: nothing new
	kind  error         // of what went wrong; nil: nothing did
	why   string        // it went wrong, and what to do
	after time.Duration // it may yet become good; 0: never
}

const (
	noRoom   = "no node has room for it: %s: end what runs there, or see node_selector and tolerations of the block"
	noImage  = "image %s cannot be pulled: %s: %s"
	noBegin  = "its container cannot begin: %s"
	noRun    = "its container ended at once, with code %d: %s: the image needs sh"
	noStart  = "its node could not start it: %s"
	notTaken = "its node has not taken it: %s: %s"
)

// Reasons of kubelets for a container that waits (pkg/kubelet/images, pkg/kubelet/container).
var (
	pullReasons = []string{
		"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError",
		"RegistryUnavailable",
	}
	failReasons = []string{
		"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "StartError", "PostStartHookError",
	}
)

// steps are what nodes and the scheduler tell of every pod, in our words: of its node and its image.
var steps = map[string]string{
	"Scheduled": "its node is %[1]s",
	"Pulling":   "%[1]s pulls %[2]s",
	"Pulled":    "%[1]s has %[2]s",
	"Created":   "%[1]s starts it",
	"Started":   "%[1]s starts it",
}

// look tells how far a pod is that shall run, by one of its containers.
func look(p pod, of containerStatus, events []event, image string, wait patience) seen {
	state := of.State
	switch w := state.Waiting; {
	case p.Metadata.DeletionTimestamp != nil:
		return seen{kind: provision.ErrPodLost, why: deleted(p)}
	case p.Status.Phase == "Running" && state.Running != nil:
		return seen{runs: true}
	case state.Terminated != nil:
		why := plain.Line(state.Terminated.String())
		if state.Terminated.Reason == "StartError" && !strings.Contains(why, "executable file not found") {
			return seen{kind: provision.ErrPodLost, why: fmt.Sprintf(noStart, why)}
		}
		return seen{kind: provision.ErrNoBegin, why: fmt.Sprintf(noRun, state.Terminated.ExitCode, why)}
	case p.Status.Phase == "Failed":
		return seen{kind: failedKind(p), why: fmt.Sprintf(notTaken, p.Status.Reason, plain.Line(p.Status.Message))}
	case w != nil && slices.Contains(pullReasons, w.Reason):
		return pulling(*w, events, image, wait)
	case w != nil && slices.Contains(failReasons, w.Reason):
		return seen{kind: provision.ErrNoBegin, why: fmt.Sprintf(noBegin, plain.Line(w.String()))}
	}
	if c := p.Status.Conditions.ofType("PodScheduled"); c.Status == "False" {
		message := plain.Line(c.Message)
		why := fmt.Sprintf(noRoom, strings.TrimSuffix(message, "."))
		says := "no node yet: " + message
		for _, e := range events {
			if e.Reason == "TriggeredScaleUp" || e.Reason == "NotTriggerScaleUp" { // of the program that adds nodes
				says = plain.Line("no node yet: " + e.Message)
			}
		}
		return seen{says: says, kind: provision.ErrNoRoom, why: why, after: wait.room}
	}
	if n := len(events); n > 0 && p.Spec.NodeName != "" {
		last := events[n-1]
		for _, reason := range pullReasons {
			if strings.HasSuffix(last.Message, reason) { // the pod's status will say so too
				return pulling(because{Reason: reason}, events, image, wait)
			}
		}
		if last.isPullFailed() { // its reason comes with the next
			return pulling(because{}, events, image, wait)
		}
		s := seen{says: plain.Line(last.Message)}
		if says, usual := steps[last.Reason]; usual {
			s.says = fmt.Sprintf(says, cmp.Or(p.Spec.NodeName, "a node"), image)
		}
		if last.Type == "Warning" {
			s.kind, s.why, s.after = provision.ErrNoBegin, fmt.Sprintf(noBegin, last.Reason+": "+s.says), wait.room
		}
		return s
	}
	if p.Spec.NodeName != "" {
		return seen{says: "its node is " + p.Spec.NodeName}
	}
	return seen{}
}

// failedKind is of a pod that a node refused or gave up.
func failedKind(p pod) error {
	if strings.HasPrefix(p.Status.Reason, "OutOf") || p.Status.Reason == "UnexpectedAdmissionError" {
		return provision.ErrNoRoom
	}
	return provision.ErrPodLost
}

// isPullFailed reports whether the node says that it could not pull an image.
func (e event) isPullFailed() bool {
	return e.Reason == "Failed" && strings.Contains(e.Message, "pull image")
}

// pulling tells a name that nobody has, or may have, from a registry that may be back.
func pulling(w because, events []event, image string, wait patience) seen {
	said := w.Message
	for _, e := range events { // later the node says only that it waits
		if e.Reason == "InspectFailed" || e.isPullFailed() {
			said = e.Message
		}
	}
	said = plain.Line(cmp.Or(said, w.Reason))
	lower := strings.ToLower(strings.ReplaceAll(said, image, "")) // in whose name there may be anything
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(lower, word) })
	}
	s := seen{kind: provision.ErrImageNotFound}
	advice := "see the way from the node to the registry"
	switch {
	case has("unauthorized", "denied", "forbidden", "authentication"):
		advice = "image_pull_secrets of the block names secrets with a login"
	case has("not found", "manifest unknown"), slices.Contains(pullReasons[2:4], w.Reason):
		advice = "is its name right?"
	case has("no space left"):
		advice = "the node's disk is full"
	default:
		s.says, s.after = "cannot pull "+image+" yet: "+said, wait.pull
	}
	s.why = fmt.Sprintf(noImage, image, said, advice)
	return s
}

// disruptions are why Kubernetes itself ends pods (the condition DisruptionTarget).
var disruptions = map[string]string{
	"PreemptionByScheduler":  "a pod of higher priority took its place: use nodes of your own",
	"DeletionByTaintManager": "its node got a taint, as one that does not answer does",
	"EvictionByEvictionAPI":  "somebody evicted it, as `kubectl drain` does",
	"DeletionByPodGC":        "its node is gone from the cluster",
	"TerminationByKubelet":   "its node ended it: it shuts down, or lacks memory or disk",
}

// deleted says who may have deleted a pod.
func deleted(p pod) string {
	if c := p.Status.Conditions.ofType("DisruptionTarget"); c.Status == "True" {
		if why, ok := disruptions[c.Reason]; ok {
			return why
		}
		return plain.Line(c.Reason + ": " + c.Message)
	}
	return "somebody deletes it"
}

package kube

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"hclbench/provision"
	"hclbench/testhost"
)

// TestLook holds what is said of pods against what kubelets and schedulers write of them.
func TestLook(t *testing.T) {
	waits := func(reason, message string) string {
		return `{"status": {"phase": "Pending", "containerStatuses": [{"name": "hcl", "state": {"waiting": {"reason": "` + reason + `", "message": "` + message + `"}}}]}}`
	}
	failed := func(code int, reason, message string) string {
		return fmt.Sprintf(`{"status": {"phase": "Failed", "containerStatuses": [{"name": "hcl", "state": {"terminated": `+
			`{"exitCode": %d, "reason": %q, "message": %q}}}]}}`, code, reason, message)
	}
	for name, tt := range map[string]struct {
		pod    string
		events []event
		kind   error
		later  bool // it may yet become good
		says   string
		why    string
	}{
		"new":     {pod: `{"status": {"phase": "Pending"}}`},
		"runs":    {pod: `{"status": {"phase": "Running", "containerStatuses": [{"name": "hcl", "state": {"running": {}}}]}}`},
		"a node":  {pod: `{"spec": {"nodeName": "node1"}, "status": {"phase": "Pending"}}`, says: "its node is node1"},
		"no node": {pod: `{"status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "message": "0/2 nodes are available"}]}}`, kind: provision.ErrNoRoom, later: true, says: "no node yet: 0/2 nodes", why: "node_selector and tolerations"},
		"grows": {pod: `{"status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "message": "0/2 nodes are available"}]}}`,
			events: []event{{Reason: "FailedScheduling", Message: "no"}, {Reason: "TriggeredScaleUp", Message: "pod triggered scale-up: [{gpu 0->1 (max: 4)}]"}},
			kind:   provision.ErrNoRoom, later: true, says: "no node yet: pod triggered scale-up: [{gpu 0->1 (max: 4)}]", why: "node_selector and tolerations"},
		"no tag yet": {pod: `{"spec": {"nodeName": "node1"}}`, events: []event{{Type: "Warning", Reason: "Failed", Message: "Failed to pull image \"x\": not found"}},
			kind: provision.ErrImageNotFound, why: "image x cannot be pulled: Failed to pull image \"x\": not found: is its name right?"},
		"pulls":    {pod: `{"spec": {"nodeName": "node1"}}`, events: []event{{Type: "Normal", Reason: "Pulling", Message: "Pulling image \"x\""}}, says: "node1 pulls x"},
		"no name":  {pod: waits("ErrImagePull", "failed to resolve reference x: not found"), kind: provision.ErrImageNotFound, why: "image x cannot be pulled: failed to resolve reference x: not found: is its name right?"},
		"no login": {pod: waits("ErrImagePull", "authorization failed: 401 Unauthorized"), kind: provision.ErrImageNotFound, why: "image_pull_secrets of the block names secrets with a login"},
		"no way":   {pod: waits("ErrImagePull", "dial tcp: i/o timeout"), kind: provision.ErrImageNotFound, later: true, says: "cannot pull x yet", why: "the way from the node to the registry"},
		"later":    {pod: waits("ImagePullBackOff", "Back-off pulling image"), events: []event{{Reason: "Failed", Message: "Failed to pull image x: manifest unknown"}}, kind: provision.ErrImageNotFound, why: "manifest unknown: is its name right?"},
		"no sh":    {pod: waits("RunContainerError", "exec: sh: executable file not found"), kind: provision.ErrNoBegin, why: "its container cannot begin: RunContainerError: exec: sh"},
		"ended":    {pod: failed(127, "Error", ""), kind: provision.ErrNoBegin, why: "its container ended at once, with code 127: Error: the image needs sh"},
		"no shell": {pod: failed(128, "StartError", "runc create failed: exec: sh: executable file not found in $PATH"), kind: provision.ErrNoBegin, why: "with code 128: StartError: runc create failed: exec: sh: executable file not found in $PATH: the image needs sh"},
		"no start": {pod: failed(128, "StartError", "runc create failed: lstat /proc/0/ns/ipc: no such file"), kind: provision.ErrPodLost, why: "its node could not start it: StartError: runc create failed: lstat"},
		"no GPU":   {pod: `{"status": {"phase": "Failed", "reason": "OutOfnvidia.com/gpu", "message": "Node didn't have enough resource"}}`, kind: provision.ErrNoRoom, why: "its node has not taken it: OutOfnvidia.com/gpu: Node didn't"},
		"evicted":  {pod: `{"status": {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}}`, kind: provision.ErrPodLost, why: "Evicted: The node was low"},
		"deleted":  {pod: `{"metadata": {"deletionTimestamp": "2026-11-22T15:30:00Z"}}`, kind: provision.ErrPodLost, why: "somebody deletes it"},
		"drained":  {pod: `{"metadata": {"deletionTimestamp": "2026-11-22T15:30:00Z"}, "status": {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]}}`, kind: provision.ErrPodLost, why: "kubectl drain"},
		"no mount": {pod: `{"spec": {"nodeName": "node1"}}`, events: []event{{Type: "Warning", Reason: "FailedMount", Message: "no such disk"}}, kind: provision.ErrNoBegin, later: true, says: "no such disk", why: "FailedMount: no such disk"},
	} {
		t.Run(name, func(t *testing.T) {
			var p pod
			testhost.OK(t, json.Unmarshal([]byte(tt.pod), &p))
			got := look(p, p.state(), tt.events, "x", usual)
			if got.kind != tt.kind || got.runs != (name == "runs") || (got.after > 0) != tt.later {
				t.Errorf("look = %+v, want kind %v, later %v", got, tt.kind, tt.later)
			}
			if !strings.HasPrefix(got.says, tt.says) || !strings.Contains(got.why, tt.why) {
				t.Errorf("look says %q, why %q, want %q, %q", got.says, got.why, tt.says, tt.why)
			}
		})
	}
}

func TestTaints(t *testing.T) {
	for _, tt := range []struct {
		taint taint
		by    toleration
		kept  bool
	}{
		{taint{"gpu", "", "NoSchedule"}, toleration{}, true},
		{taint{"gpu", "", "PreferNoSchedule"}, toleration{}, false},
		{taint{"gpu", "yes", "NoSchedule"}, toleration{Key: "gpu", Operator: "Exists"}, false},
		{taint{"gpu", "yes", "NoSchedule"}, toleration{Key: "gpu", Value: "yes"}, false},
		{taint{"gpu", "yes", "NoSchedule"}, toleration{Key: "gpu", Value: "no"}, true},
		{taint{"gpu", "", "NoExecute"}, toleration{Key: "gpu", Operator: "Exists", Effect: "NoSchedule"}, true},
		{taint{"gpu", "", "NoExecute"}, toleration{Operator: "Exists"}, false},
	} {
		if got := tt.taint.kept([]toleration{tt.by}); got != tt.kept {
			t.Errorf("%+v by %+v: kept = %v", tt.taint, tt.by, got)
		}
	}
}

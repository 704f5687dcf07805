package kube

import (
	"context"
	"fmt"
	"net/url"
	"slices"

	"hclbench/plain"
	"hclbench/provision"
)

// trouble is what the cluster last complained of about what was made, or what came of that: why a
// ReplicaSet makes no pods, or what an operator cannot do. Empty: nothing, or events may not be read.
func (m *Made) trouble(ctx context.Context) string {
	c := m.root.client
	query := url.Values{"fieldSelector": {"type=Warning"}}
	all, err := listAt[event](ctx, &c.server, c.in("events"), query)
	if err != nil {
		return ""
	}
	slices.SortStableFunc(all, func(a, b event) int { return a.LastTimestamp.Compare(b.LastTimestamp) })
	for _, e := range slices.Backward(all) {
		if of := e.InvolvedObject; of.Kind != "Pod" && m.comesOf(ctx, of, furthest) { // of pods more is known
			return fmt.Sprintf("%s %s: %s: %s", of.Kind, of.Name, e.Reason, plain.Line(e.Message))
		}
	}
	return ""
}

// furthest is how many owners may stand between an object and what was made.
const furthest = 5

// comesOf reports whether an object was made by the engine, or is owned by one that was.
func (m *Made) comesOf(ctx context.Context, of involved, far int) bool {
	its, asked := m.its[of.UID]
	if asked || far == 0 {
		return its
	}
	its = slices.ContainsFunc(m.objects, func(o madeObject) bool { return o.uid == of.UID })
	if !its {
		owners, err := m.ownersOf(ctx, of)
		if err != nil {
			return false // it may be known the next time
		}
		its = slices.ContainsFunc(owners, func(owner involved) bool { return m.comesOf(ctx, owner, far-1) })
	}
	m.its[of.UID] = its
	return its
}

// ownersOf are none of what is gone, or what may not be read.
func (m *Made) ownersOf(ctx context.Context, of involved) ([]involved, error) {
	c := m.root.client
	var now named
	p, err := c.place(ctx, provision.Object{APIVersion: of.APIVersion, Kind: of.Kind, Name: of.Name}, m.known)
	if err == nil {
		err = c.do(ctx, request{path: p.path}, &now)
	}
	if Refused(err) {
		err = nil
	}
	return now.Metadata.OwnerReferences, err
}

package vm

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "vmop/api/v1"
	"vmop/manager/decide"
	"vmop/manager/objects"
)

// An explanation adds to a phase what Kubernetes doesn't say, or says elsewhere: why a VM
// doesn't start, and which of its fields asks for what can't be had.
type explanation struct {
	*decide.Snapshot
	c      *reconciler
	claims []objects.Claim
	memory *memory
	again  time.Time // when to ask again; zero: never
}

func (e *explanation) explain(ctx context.Context, p *decide.Phase) {
	var more string
	switch {
	case p.Phase != v1.PhasePending:
	case p.Reason == decide.ReasonPodMissing:
		e.explainMissingPod(ctx, p)
	case p.Reason == decide.ReasonUnschedulable:
		more = decide.Unplaced(e.Snapshot, p.Message)
	case p.Reason == decide.ReasonClaimPending:
		more = e.query(ctx, e.claimVersions(), func() (string, error) { return e.unboundClaims(ctx) })
	case p.Reason == decide.ReasonMissingClaim:
		more = decide.MissingClaim(e.Snapshot, p.Message)
	case p.Reason == decide.ReasonImagePull:
		more = decide.ImageSetting(e.Snapshot, p.Message)
	}
	if more != "" {
		p.Message = strings.TrimRight(p.Message, ".") + "; " + more
	}
}

// explainMissingPod says why there is no pod. The stateful set's controller reports that
// in events only, after it has seen the stateful set, whose status it changes then.
func (e *explanation) explainMissingPod(ctx context.Context, p *decide.Phase) {
	set := e.StatefulSet
	if set == nil || objects.VersionOf(set) <= e.memory.writing.StatefulSetVersion() {
		return
	}
	note := e.query(ctx, "pod of "+string(set.UID), func() (string, error) {
		return e.c.warning(ctx, e.Now, objects.KindStatefulSet, set.UID)
	})
	if note != "" {
		message := decide.PodRejected(e.Snapshot, note)
		*p = decide.Phase{Phase: v1.PhasePending, Reason: decide.ReasonPodRefused, Message: message}
	}
}

// claimVersions identifies the VM's claims as they are.
func (e *explanation) claimVersions() string {
	versions := "claims of " + string(e.Pod.UID)
	for _, claim := range e.claims {
		versions += " " + e.Claims[claim.Name].ResourceVersion
	}
	return versions
}

// unboundClaims says which of the VM's claims have no volume, and why: those with a
// warning, if there are such. The store has only the metadata of claims.
func (e *explanation) unboundClaims(ctx context.Context) (string, error) {
	var warned, others []string
	for i := range e.claims {
		claim := &e.claims[i]
		var have corev1.PersistentVolumeClaim
		err := e.c.live.Get(ctx, types.NamespacedName{Namespace: e.VM.Namespace, Name: claim.Name}, &have)
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return "", fmt.Errorf("read PersistentVolumeClaim %s: %w", claim.Name, err)
		case have.Status.Phase == corev1.ClaimBound:
			continue
		}
		why, err := e.c.warning(ctx, e.Now, objects.KindClaim, have.UID)
		if err != nil {
			return "", err
		}
		if text := claim.Unbound(&have, why); why != "" {
			warned = append(warned, text)
		} else {
			others = append(others, text)
		}
	}
	if len(warned) > 0 {
		return strings.Join(warned, "; "), nil
	}
	return strings.Join(others, "; "), nil
}

// A poll is a question about a VM that doesn't start, about events or the content of
// claims: no watch reports that the answer has changed.
type poll struct {
	about        string
	since, asked time.Time
	answer       string
}

// Bounds of the interval of a poll, which grows with the time for which the VM hasn't
// started.
const (
	firstPoll   = 3 * time.Second // what every VM passes through is not asked about
	longestPoll = 10 * time.Minute
)

// due returns when to ask next.
func (p *poll) due() time.Time {
	if p.asked.IsZero() {
		return p.since.Add(firstPoll)
	}
	return p.asked.Add(min(max(p.asked.Sub(p.since), firstPoll), longestPoll))
}

// query asks if it is due, and returns the newest answer. If the question can't be asked,
// what is known without it is published nevertheless.
func (e *explanation) query(ctx context.Context, about string, question func() (string, error)) string {
	p := e.memory.poll
	if p == nil || p.about != about {
		p = &poll{about: about, since: e.Now}
		e.memory.poll = p
	}
	if !e.Now.Before(p.due()) {
		answer, err := question()
		if err == nil {
			p.answer = answer
		} else {
			log.FromContext(ctx).Error(err, "why the VM doesn't start could not be queried")
		}
		p.asked = e.Now
	}
	e.again = p.due()
	return p.answer
}

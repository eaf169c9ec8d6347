package controller

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
	"vmop/manager/vm/decide"
	"vmop/manager/vm/objects"
)

// explanation adds to a phase what Kubernetes reports elsewhere or not at all: why a VM doesn't start, and which of its
// fields request unavailable resources.
type explanation struct {
	*decide.Snapshot
	c      *reconciler
	claims []objects.Claim
	memory *memory
	again  time.Time // when to ask again; zero means never
}

func (e *explanation) explainPhase(ctx context.Context, p *decide.Phase) {
	var more string
	switch {
	case p.Phase != v1.PhasePending:
	case p.Reason == decide.ReasonPodMissing:
		e.explainMissingPod(ctx, p)
	case p.Reason == decide.ReasonUnschedulable:
		more = decide.Unplaced(e.Snapshot, p.Message)
	case p.Reason == decide.ReasonClaimPending:
		more = e.askIfDue(ctx, e.claimVersions(), func() (string, error) { return e.unboundClaims(ctx) })
	case p.Reason == decide.ReasonMissingClaim:
		more = decide.MissingClaim(e.Snapshot, p.Message)
	case p.Reason == decide.ReasonImagePull:
		more = decide.ImageSetting(e.Snapshot, p.Message)
	}
	if more != "" {
		p.Message = strings.TrimRight(p.Message, ".") + "; " + more
	}
}

// explainMissingPod explains why the pod is missing. The StatefulSet's controller reports the reason only in events.
// It has seen the StatefulSet when it has changed the status.
func (e *explanation) explainMissingPod(ctx context.Context, p *decide.Phase) {
	set := e.StatefulSet
	if set == nil || objects.VersionOf(set) <= e.memory.writing.StatefulSetVersion() {
		return
	}
	note := e.askIfDue(ctx, "pod of "+string(set.UID), func() (string, error) {
		return e.c.newestWarning(ctx, e.Now, objects.KindStatefulSet, set.UID)
	})
	if note != "" {
		message := decide.PodRejected(e.Snapshot, note)
		*p = decide.Phase{Phase: v1.PhasePending, Reason: decide.ReasonPodRefused, Message: message}
	}
}

// claimVersions returns a key for the current versions of the VM's claims.
func (e *explanation) claimVersions() string {
	versions := "claims of " + string(e.Pod.UID)
	for _, claim := range e.claims {
		versions += " " + e.Claims[claim.Name].ResourceVersion
	}
	return versions
}

// unboundClaims explains which of the VM's claims have no volume. If some of them have a warning, it returns only
// those. It reads the claims, because the store contains only their metadata.
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
		why, err := e.c.newestWarning(ctx, e.Now, objects.KindClaim, have.UID)
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

// poll is a repeated question about a VM that doesn't start. The answer is in events or in the content of claims, and
// no watch reports its changes.
type poll struct {
	about        string
	since, asked time.Time
	answer       string
}

// Bounds of a poll's interval. The interval grows the longer the VM fails to start.
const (
	firstPoll   = 3 * time.Second // longer than the regular phases of a start
	longestPoll = 10 * time.Minute
)

// nextTime returns when to ask next.
func (p *poll) nextTime() time.Time {
	if p.asked.IsZero() {
		return p.since.Add(firstPoll)
	}
	return p.asked.Add(min(max(p.asked.Sub(p.since), firstPoll), longestPoll))
}

// askIfDue asks the question if it is due, and returns the latest answer. If the question fails, the phase is published
// without a new answer.
func (e *explanation) askIfDue(ctx context.Context, about string, question func() (string, error)) string {
	p := e.memory.poll
	if p == nil || p.about != about {
		p = &poll{about: about, since: e.Now}
		e.memory.poll = p
	}
	if !e.Now.Before(p.nextTime()) {
		answer, err := question()
		if err == nil {
			p.answer = answer
		} else {
			log.FromContext(ctx).Error(err, "why the VM doesn't start could not be queried")
		}
		p.asked = e.Now
	}
	e.again = p.nextTime()
	return p.answer
}

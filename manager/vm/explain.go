package vm

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	v1 "vmop/api/v1"
	"vmop/manager/objects"
)

// explain adds to a phase what Kubernetes doesn't say, or only elsewhere: which field
// of the VM asked for what can't be had.
func (c *reconciler) explain(ctx context.Context, v *visit, p *phase) {
	var more string
	switch {
	case p.phase != v1.PhasePending:
	case p.reason == reasonPodMissing:
		c.explainMissing(ctx, v, p)
	case p.reason == reasonUnschedulable:
		more = unplaced(v, p.message)
	case p.reason == reasonClaimPending:
		more = v.inquire(ctx, v.claimVersions(), func() (string, error) { return c.unbound(ctx, v) })
	case p.reason == reasonMissingClaim && strings.Contains(p.message, fmt.Sprintf("%q", v.settings.ImageRepository)):
		more = "it is for CD images and kernels, and whoever sets up the namespace makes it (imageRepository of the manager's configuration)"
	case p.reason == reasonImagePull && strings.Contains(p.message, v.settings.Image):
		more = "image.source of the manager's configuration, or VMOP_RUNNER_IMAGE of its Deployment, names it"
	case p.reason == reasonImagePull:
		more = "spec.image names it"
	}
	if more != "" {
		p.message = strings.TrimRight(p.message, ".") + "; " + more
	}
}

// explainMissing says why there is no pod. The stateful set's controller tells that in
// events only, when it has been at the stateful set, whose status it changes then.
func (c *reconciler) explainMissing(ctx context.Context, v *visit, p *phase) {
	if v.statefulSet == nil || versionOf(v.statefulSet) <= v.memory.made {
		return
	}
	why := v.inquire(ctx, "pod of "+string(v.statefulSet.UID), func() (string, error) {
		return c.complaint(ctx, v, statefulSetKind, v.statefulSet.UID)
	})
	if why == "" {
		return
	}
	if _, of, found := strings.Cut(why, " failed error: "); found { // before it stands who wanted to make which pod
		why = of
	}
	message := "its pod is refused: " + why
	if more := refusedFor(v, why); more != "" {
		message += "; " + more
	}
	*p = phase{v1.PhasePending, reasonPodRefused, message, false}
}

// refusedFor names the fields for which a pod is refused.
func refusedFor(v *visit, why string) string {
	switch {
	case strings.Contains(why, "violates PodSecurity"):
		var fields []string
		for _, p := range objects.Privileges(v.vm, v.settings) {
			if !slices.Contains(fields, p.Reason) {
				fields = append(fields, p.Reason)
			}
		}
		return "it needs that for " + strings.Join(fields, ", ") + " (status.privileges); the namespace's label pod-security.kubernetes.io/enforce says what it may have"
	case strings.Contains(why, "PriorityClass"):
		return "spec.priorityClassName names it"
	case strings.Contains(why, "quota"), strings.Contains(why, "memory"), strings.Contains(why, "cpu"):
		return objects.Requests(v.vm, v.settings)
	}
	return ""
}

// unplaced names the fields for which no node suits.
func unplaced(v *visit, said string) string {
	var all []string
	if strings.Contains(said, "Insufficient") {
		all = append(all, objects.Requests(v.vm, v.settings))
	}
	if strings.Contains(said, "node affinity/selector") {
		if s := v.vm.Spec.NodeSelector; len(s) > 0 {
			var labels []string
			for _, key := range slices.Sorted(maps.Keys(s)) {
				labels = append(labels, key+"="+s[key])
			}
			all = append(all, "spec.nodeSelector wants nodes with the labels "+strings.Join(labels, ", "))
		}
		if v.vm.Spec.Affinity != nil {
			all = append(all, "spec.affinity chooses among nodes")
		}
	}
	if strings.Contains(said, "untolerated taint") {
		all = append(all, "spec.tolerations lists the taints of nodes that the VM may run on")
	}
	if strings.Contains(said, "PersistentVolume's node affinity") {
		all = append(all, "a volume of the VM can be used on certain nodes only (kubectl get pv)")
	}
	return strings.Join(all, "; ")
}

// claimVersions names the VM's claims as they are.
func (v *visit) claimVersions() string {
	versions := "claims of " + string(v.pod.UID)
	for _, claim := range v.claims {
		versions += " " + v.existing[claim.Name].ResourceVersion
	}
	return versions
}

// unbound says which of the VM's claims have no volume, and why: of those with a
// complaint, if there is one. The mirror has only the metadata of claims.
func (c *reconciler) unbound(ctx context.Context, v *visit) (string, error) {
	var complained, others []string
	for i := range v.claims {
		claim := &v.claims[i]
		var have corev1.PersistentVolumeClaim
		err := c.live.Get(ctx, types.NamespacedName{Namespace: v.vm.Namespace, Name: claim.Name}, &have)
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return "", fmt.Errorf("read PersistentVolumeClaim %s: %w", claim.Name, err)
		case have.Status.Phase == corev1.ClaimBound:
			continue
		}
		why, err := c.complaint(ctx, v, claimKind, have.UID)
		if err != nil {
			return "", err
		}
		if text := claim.Unbound(&have, why); why != "" {
			complained = append(complained, text)
		} else {
			others = append(others, text)
		}
	}
	if len(complained) > 0 {
		return strings.Join(complained, "; "), nil
	}
	return strings.Join(others, "; "), nil
}

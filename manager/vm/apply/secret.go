package apply

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"vmop/manager/vm/decide"
	"vmop/manager/vm/objects"
)

// takenRetry is the delay before an object with another owner is checked again.
const takenRetry = 2 * time.Minute

// DisplaySecret creates the secret with the display password if the VM needs it and it is missing. It returns the
// secret's name, or "" if the VM needs no password. The secret is never changed.
func (r *Round) DisplaySecret(ctx context.Context) (name string, did decide.Report) {
	var names []string
	for _, secret := range r.Secrets {
		names = append(names, secret.Name)
	}
	name, missing := objects.DisplaySecretName(r.VM, names)
	if !missing || r.isCurrent(objects.KindSecret.String(), "", nil) {
		return name, did
	}
	configuration, err := objects.DisplaySecret(r.VM, r.Settings, r.w.random)
	if err != nil {
		did.Stop(nil, err)
		return name, did
	}
	var secret corev1.Secret
	switch err := r.createObject(ctx, configuration, &secret); {
	case apierrors.IsAlreadyExists(err):
		message := fmt.Sprintf("secret %s is not this VM's, since it lacks the labels of a display secret", name)
		did.Stop(decide.Waiting{Reason: decide.ReasonNameTaken, Message: message, Until: r.Now.Add(takenRetry)}, nil)
	case err != nil:
		did.Stop(decide.Refused(err), fmt.Errorf("create secret %s: %w", name, err))
	default:
		r.memory.written.setWrite(objects.KindSecret.String(), written{version: objects.VersionOf(&secret), at: r.Now})
	}
	return name, did
}

package apply

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"vmop/manager/decide"
	"vmop/manager/objects"
)

// takenRetry is when an object is checked again that is not the VM's.
const takenRetry = 2 * time.Minute

// DisplaySecret creates the secret with the display password unless there is one, or the
// VM needs none, and returns its name; "" for none. It is never changed.
func (r *Round) DisplaySecret(ctx context.Context) (name string, did decide.Report) {
	var names []string
	for _, secret := range r.Secrets {
		names = append(names, secret.Name)
	}
	name, missing := objects.DisplaySecretName(r.VM, names)
	if !missing || r.current(objects.KindSecret.String(), "", nil) {
		return name, did
	}
	configuration, err := objects.DisplaySecret(r.VM, r.Settings, r.w.random)
	if err != nil {
		did.Stop(nil, err)
		return name, did
	}
	var secret corev1.Secret
	switch err := r.create(ctx, configuration, &secret); {
	case apierrors.IsAlreadyExists(err):
		message := fmt.Sprintf("secret %s is not this VM's, since it lacks the labels of a display secret", name)
		did.Stop(decide.Waiting{Reason: decide.ReasonNameTaken, Message: message, Until: r.Now.Add(takenRetry)}, nil)
	case err != nil:
		did.Stop(decide.Refused(err), fmt.Errorf("create secret %s: %w", name, err))
	default:
		r.memory.written.set(objects.KindSecret.String(), written{version: objects.VersionOf(&secret), at: r.Now})
	}
	return name, did
}

package vm

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"vmop/manager/objects"
)

// displaySecret makes the secret with the password of the VM's screen, unless there
// is one or shall be none. Its content is nobody's business any more then.
func (c *reconciler) displaySecret(ctx context.Context, v *visit) (outcome, error) {
	var names []string
	for _, secret := range v.secrets {
		names = append(names, secret.Name)
	}
	name, missing := objects.DisplaySecretName(v.vm, names)
	v.secret = name
	if !missing {
		return nil, nil
	}
	if v.current(secretKind.String(), "", nil) {
		return nil, nil
	}
	configuration, err := objects.DisplaySecret(v.vm, v.settings, c.random)
	if err != nil {
		return nil, err
	}
	var secret corev1.Secret
	switch err := c.create(ctx, configuration, &secret); {
	case apierrors.IsAlreadyExists(err):
		return waiting{reasonNameTaken, fmt.Sprintf("secret %s is somebody else's, for it has not the labels of a display secret", name), v.now.Add(lastRetry)}, nil
	case err != nil:
		return refused(err), fmt.Errorf("make secret %s: %w", name, err)
	}
	v.memory.written.note(secretKind.String(), written{version: versionOf(&secret), at: v.now})
	return nil, nil
}

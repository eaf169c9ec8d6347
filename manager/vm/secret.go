package vm

import (
	"context"
	"encoding/json"
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
	if v.memory.current(secretKind.String(), "", nil, v.now) {
		v.lookForUnseen(nil)
		return nil, nil
	}
	configuration, err := objects.DisplaySecret(v.vm, v.settings, c.random)
	if err != nil {
		return nil, err
	}
	var secret corev1.Secret
	if text, err := json.Marshal(configuration); err != nil {
		return nil, fmt.Errorf("make secret %s: %w", name, err)
	} else if err := json.Unmarshal(text, &secret); err != nil {
		return nil, fmt.Errorf("make secret %s: %w", name, err)
	}
	// Not applied: that would overwrite somebody else's.
	switch err := c.client.Create(ctx, &secret, managerWriter); {
	case apierrors.IsAlreadyExists(err):
		return waiting{reasonNameTaken, fmt.Sprintf("secret %s is somebody else's, for it has not the labels of a display secret", name), v.now.Add(lastRetry)}, nil
	case err != nil:
		return refused(err), fmt.Errorf("make secret %s: %w", name, err)
	}
	v.memory.written.note(secretKind.String(), written{version: versionOf(&secret), at: v.now})
	return nil, nil
}

package program

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Kustomize returns the output of "kubectl kustomize" for a kustomization. Each occurrence of base is replaced by the
// project's folder deploy. The kustomization is written to a new folder, because its paths must be relative.
func Kustomize(ctx context.Context, kustomization, base string) (string, error) {
	root, err := Root(ctx)
	if err != nil {
		return "", err
	}
	deploy := filepath.Join(root, "deploy")
	if err := LookInto(deploy); err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "kustomization")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path, err := filepath.Rel(dir, deploy)
	if err != nil {
		return "", err
	}
	text := strings.ReplaceAll(kustomization, base, path)
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, "kubectl", "kustomize", dir).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("kubectl kustomize: %w: %s", err, out)
	}
	return string(out), nil
}

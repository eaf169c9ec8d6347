package config

import (
	"context"
	"log/slog"
	"path/filepath"

	"vmop/internal/filewatch"
)

// Watch reports when a configuration file, one of the files next to it (display-password, password-expiry), or
// one of more, may have changed; see filewatch.Files. It ends with ctx.
func Watch(ctx context.Context, log *slog.Logger, file string, more ...string) <-chan struct{} {
	return filewatch.Files(ctx, log.With("config", file), append(filesOf(file), more...)...)
}

// filesOf returns the paths of a configuration file and the files next to it.
func filesOf(file string) []string {
	dir := filepath.Dir(file)
	return []string{file, filepath.Join(dir, passwordFile), filepath.Join(dir, expiryFile)}
}

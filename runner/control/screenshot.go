package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"

	"vmop/qmp"
)

// getScreenshot sends the screen as PNG.
func (s *Server) getScreenshot(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), actionTime)
	defer cancel()
	dir, err := os.MkdirTemp(s.opts.Dir, "screen")
	if err != nil {
		return fmt.Errorf("make a folder for the screenshot: %w", err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "screen")
	png, err := s.dump(ctx, file)
	if err != nil {
		return err
	}
	f, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("open QEMU's screenshot: %w", err)
	}
	defer f.Close()
	w.Header().Set("Content-Type", pngType)
	if !png {
		return ppmToPNG(w, f)
	}
	if info, err := f.Stat(); err == nil {
		w.Header().Set("Content-Length", strconv.FormatInt(info.Size(), 10))
	}
	_, _ = io.Copy(w, f) // the client may have disconnected
	return nil
}

// dump lets QEMU write the screen into a file and reports whether it is PNG: QEMU before
// version 7.1, or built without libpng, writes only PPM.
func (s *Server) dump(ctx context.Context, file string) (png bool, err error) {
	var refused *qmp.Error
	_, err = s.opts.Backend.Run(ctx, qmp.Command{
		Execute: "screendump", Arguments: map[string]string{"filename": file, "format": "png"},
	})
	if err == nil || !errors.As(err, &refused) {
		return true, err
	}
	_, err = s.opts.Backend.Run(ctx, qmp.Command{Execute: "screendump", Arguments: map[string]string{"filename": file}})
	return false, err
}

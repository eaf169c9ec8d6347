// Command tinyguest builds the tiny guest of vmop/test/guest:
//
//	go run ./test/guest/tinyguest -o build/guest
//
// It writes build/guest/vmlinuz and build/guest/initrd.gz.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"vmop/test/guest"
)

func main() {
	if err := buildGuest(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "tinyguest:", err)
		os.Exit(1)
	}
}

func buildGuest(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("tinyguest", flag.ContinueOnError)
	dir := flags.String("o", "build/guest", "write the guest into this `folder`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	image, err := guest.Build(ctx, *dir)
	if err != nil {
		return err
	}
	fmt.Printf("guest: kernel %s, initial file system %s\n", image.Kernel, image.Initrd)
	return nil
}

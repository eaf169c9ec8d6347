// Package registry imports images from container images. It supports the layout of KubeVirt's containerDisk, a file
// in the folder /disk, and OCI artifacts with the image as their only layer.
//
//	i := diskimage.Import{Source: registry.Image{Reference: "registry.example.org/debian:12"}, …}
//
// It reads layers as they arrive and doesn't store them. It is a separate package so that programs that import from
// elsewhere don't link the code for registries.
package registry

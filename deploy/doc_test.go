// Package deploy checks the files that containers are built and run from, without
// a container engine.
package deploy

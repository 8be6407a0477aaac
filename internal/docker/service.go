package docker

import "context"

// service is a program beside a step.
type service struct {
	container string // its name
}

func (s *step) startServices(context.Context) error { return nil }

func (s *service) await() {}

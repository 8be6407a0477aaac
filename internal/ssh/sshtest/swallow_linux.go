package sshtest

import (
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Swallow makes the network lose all that is sent to the server, on connections that are there and on
// those to come, until it is called with false. Neither side gets an error: packets are dropped before
// TCP sees them, as by a firewall that has forgotten the connection.
func (s *Server) Swallow(all bool) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	sockets := []syscall.Conn{s.listener.(*net.TCPListener)} // whose filter new connections inherit
	for _, file := range s.running {
		sockets = append(sockets, syscall.Conn(file))
	}
	for _, socket := range sockets {
		if err := swallow(socket, all); err != nil {
			s.t.Error(err)
		}
	}
}

// swallow sets or removes the filter of a socket that takes no packet.
func swallow(socket syscall.Conn, all bool) error {
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	none := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 0}}
	failed := raw.Control(func(fd uintptr) {
		if all {
			err = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &none[0]})
		} else {
			err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0)
		}
	})
	if failed != nil {
		return failed
	}
	return os.NewSyscallError("setsockopt", err)
}

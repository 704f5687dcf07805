package main

import (
	"fmt"
	"io"
	"net"

	"hclbench/provision/reach"

	"github.com/spf13/cobra"
)

// connect is what a caller reaches its agent and engines by where sshd forwards
// nothing.
func (a *app) connect() *cobra.Command {
	return &cobra.Command{
		Use:    reach.ConnectVerb + " NETWORK ADDRESS",
		Short:  "Be a connection on standard input and output",
		Hidden: true, // the connection to a host uses it
		Args:   cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			conn, err := new(net.Dialer).DialContext(c.Context(), args[0], args[1])
			if err != nil {
				fmt.Fprintln(a.stdout, err)
				return err
			}
			defer conn.Close()
			if _, err := fmt.Fprintln(a.stdout, reach.BridgeConnected); err != nil {
				return err
			}
			go func() {
				_, _ = io.Copy(conn, a.in) // the other end tells what became of it
				if half, ok := conn.(interface{ CloseWrite() error }); ok {
					_ = half.CloseWrite()
				}
			}()
			_, err = io.Copy(a.stdout, conn)
			return err
		},
	}
}

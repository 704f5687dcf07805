package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"time"
)

// What measures a fabric, with results from the environment, of the image or the container:
//
//	FABRIC_GBITS    of ib_write_bw; 392 without it
//	FABRIC_FAULT    what the tools for RDMA say instead of an answer; with "hang" they never end
//	FABRIC_DIES     what an all-reduce over several hosts says before it fails, on all but the first
//	FABRIC_SECONDS  of an all-reduce over several hosts; 0.04 without it
//	FABRIC_NETWORK  that NCCL takes; IB without it

// railTool is ibv_rc_pingpong or ib_write_bw: without an address it waits for the one that has it.
func railTool(args []string) error {
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	port := flags.Int("p", 0, "")
	for _, name := range []string{"d", "g", "x", "n", "D"} {
		flags.String(name, "", "")
	}
	flags.Bool("F", false, "")
	flags.Bool("report_gbits", false, "")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	switch fault := os.Getenv("FABRIC_FAULT"); fault {
	case "":
	case "hang":
		<-time.After(time.Hour)
	default:
		return errors.New(fault)
	}
	if flags.NArg() == 0 {
		l, err := net.Listen("tcp", ":"+strconv.Itoa(*port))
		if err != nil {
			return err
		}
		defer l.Close()
		c, err := l.Accept()
		if err != nil {
			return err
		}
		return c.Close()
	}
	c, err := new(net.Dialer).DialContext(context.Background(), "tcp", net.JoinHostPort(flags.Arg(0), strconv.Itoa(*port)))
	if err != nil {
		return fmt.Errorf("%s %s:%d", "Couldn't connect to", flags.Arg(0), *port)
	}
	defer c.Close()
	if _, err := io.ReadAll(c); err != nil {
		return err
	}
	if args[0] == "ibv_rc_pingpong" {
		fmt.Println("8192000 bytes in 0.01 seconds = 8000.00 Mbit/sec\n1000 iters in 0.01 seconds = 4.20 usec/iter")
		return nil
	}
	gbits := os.Getenv("FABRIC_GBITS")
	if gbits == "" {
		gbits = "392.10"
	}
	fmt.Println(" #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]")
	fmt.Printf(" 65536      1765900          0.00               %s             0.735815\n", gbits)
	return nil
}

// allReduce is the program that measures one: GPUS WORLD FIRST ADDRESS BYTES. The first process
// waits until all others have come.
func allReduce(words []string) error {
	if len(words) != 5 {
		return fmt.Errorf("allreduce: %q", words)
	}
	gpus, world, first, at := words[0], words[1], words[2], words[3]
	if why := os.Getenv("FABRIC_DIES"); why != "" && first != "0" {
		return errors.New(why)
	}
	if first != "0" {
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
			c, err := net.Dial("tcp", at)
			if err == nil {
				return c.Close()
			}
			if time.Now().After(end) {
				return err
			}
		}
	}
	seconds, network := "0.03", "IB"
	if gpus != world {
		l, err := net.Listen("tcp", at)
		if err != nil {
			return err
		}
		defer l.Close()
		n, _ := strconv.Atoi(gpus)
		all, _ := strconv.Atoi(world)
		for range all/n - 1 {
			c, err := l.Accept()
			if err != nil {
				return err
			}
			c.Close()
		}
		seconds = "0.04"
		if s := os.Getenv("FABRIC_SECONDS"); s != "" {
			seconds = s
		}
	}
	if s := os.Getenv("FABRIC_NETWORK"); s != "" {
		network = s
	}
	fmt.Printf("n1:77:77 [0] NCCL INFO Using network %s\n\n{\"seconds\": %s}\n", network, seconds)
	return nil
}

package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	plugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// gpus gives a node GPUs as the vendors' device plugins do: they are counted by the
// kubelet, and a container that asks for some gets some of its own.
func gpus() {
	flags := flag.NewFlagSet("gpus", flag.ExitOnError)
	resource := flags.String("resource", "nvidia.com/gpu", "what pods ask for")
	count := flags.Int("count", 8, "how many there are")
	devices := flags.String("devices", "", `device nodes of a GPU, with # for its number: "/dev/nvidia#"`)
	tools := flags.String("tools", "", `what such a container finds of the node: "FILE=THERE FILE=THERE"`)
	variable := flags.String("variable", "", "environment variable that tells a container the numbers of its GPUs")
	flags.Parse(os.Args[1:])
	p := &gpuPlugin{count: *count, variable: *variable, devices: strings.Fields(*devices), tools: strings.Fields(*tools)}
	if err := p.serve(*resource); err != nil {
		fmt.Fprintln(os.Stderr, "gpus:", err)
		os.Exit(1)
	}
}

// gpuPlugin is a device plugin of the kubelet's.
type gpuPlugin struct {
	plugin.UnimplementedDevicePluginServer
	count    int
	variable string
	devices  []string
	tools    []string
}

// serve registers with the kubelet, and again with every kubelet that comes after it: each
// removes the sockets of plugins as it starts.
func (p *gpuPlugin) serve(resource string) error {
	const socket = "hcl-gpus.sock"
	for ; ; time.Sleep(200 * time.Millisecond) {
		if _, err := os.Stat(plugin.DevicePluginPath + socket); err == nil {
			continue
		}
		if _, err := os.Stat(plugin.KubeletSocket); err != nil {
			continue
		}
		l, err := net.Listen("unix", plugin.DevicePluginPath+socket)
		if err != nil {
			return err
		}
		server := grpc.NewServer()
		plugin.RegisterDevicePluginServer(server, p)
		go server.Serve(l)
		if err := register(&plugin.RegisterRequest{Version: plugin.Version, Endpoint: socket, ResourceName: resource}); err != nil {
			fmt.Fprintln(os.Stderr, "gpus: register:", err)
			server.Stop() // its socket goes, and we try again
		}
	}
}

func register(r *plugin.RegisterRequest) error {
	conn, err := grpc.NewClient("unix://"+plugin.KubeletSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = plugin.NewRegistrationClient(conn).Register(context.Background(), r)
	return err
}

func (p *gpuPlugin) GetDevicePluginOptions(context.Context, *plugin.Empty) (*plugin.DevicePluginOptions, error) {
	return &plugin.DevicePluginOptions{}, nil
}

func (p *gpuPlugin) ListAndWatch(_ *plugin.Empty, stream plugin.DevicePlugin_ListAndWatchServer) error {
	var all plugin.ListAndWatchResponse
	for i := range p.count {
		all.Devices = append(all.Devices, &plugin.Device{ID: fmt.Sprint(i), Health: plugin.Healthy})
	}
	if err := stream.Send(&all); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

func (p *gpuPlugin) Allocate(_ context.Context, asked *plugin.AllocateRequest) (*plugin.AllocateResponse, error) {
	var all plugin.AllocateResponse
	for _, c := range asked.ContainerRequests {
		var given plugin.ContainerAllocateResponse
		if p.variable != "" {
			given.Envs = map[string]string{p.variable: strings.Join(c.DevicesIds, ",")}
		}
		for _, id := range c.DevicesIds {
			for _, device := range p.devices {
				path := strings.ReplaceAll(device, "#", id)
				given.Devices = append(given.Devices, &plugin.DeviceSpec{ContainerPath: path, HostPath: path, Permissions: "rw"})
			}
		}
		for _, tool := range p.tools {
			file, there, _ := strings.Cut(tool, "=")
			given.Mounts = append(given.Mounts, &plugin.Mount{ContainerPath: there, HostPath: file, ReadOnly: true})
		}
		all.ContainerResponses = append(all.ContainerResponses, &given)
	}
	return &all, nil
}

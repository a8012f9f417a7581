# SPDX-License-Identifier: BSD-3-Clause
"""ResNet-18 on CIFAR-10 files with PyTorch's own DDP: what worker/examples/resnet_cifar.cpp must
equal. Run by resnet_cifar_test.py on each rank:

    resnet_reference.py initial.pth data-directory width epochs batch-size learning-rate seed

Prints the same `epoch` lines as the C++ program. The names of the modules are torchvision's.
"""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

MEAN = torch.tensor([0.4914, 0.4822, 0.4465]).view(1, 3, 1, 1)
DEVIATION = torch.tensor([0.2023, 0.1994, 0.2010]).view(1, 3, 1, 1)


def convolution(inside, outside, kernel, stride):
    return nn.Conv2d(inside, outside, kernel, stride, kernel // 2, bias=False)


class BasicBlock(nn.Module):
    def __init__(self, inside, outside, stride):
        super().__init__()
        self.conv1 = convolution(inside, outside, 3, stride)
        self.bn1 = nn.BatchNorm2d(outside)
        self.conv2 = convolution(outside, outside, 3, 1)
        self.bn2 = nn.BatchNorm2d(outside)
        self.downsample = None
        if stride != 1 or inside != outside:
            self.downsample = nn.Sequential(
                convolution(inside, outside, 1, stride), nn.BatchNorm2d(outside)
            )

    def forward(self, x):
        shortcut = x if self.downsample is None else self.downsample(x)
        inner = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(inner)) + shortcut)


class ResNet18(nn.Module):
    def __init__(self, width, classes=10):
        super().__init__()
        self.conv1 = convolution(3, width, 7, 2)
        self.bn1 = nn.BatchNorm2d(width)
        inside = width
        for stage in range(1, 5):
            outside, stride = width * 2 ** (stage - 1), 1 if stage == 1 else 2
            blocks = BasicBlock(inside, outside, stride), BasicBlock(outside, outside, 1)
            setattr(self, f"layer{stage}", nn.Sequential(*blocks))
            inside = outside
        self.fc = nn.Linear(inside, classes)

    def forward(self, images):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(images))), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(F.adaptive_avg_pool2d(x, (1, 1)).flatten(1))


def read(directory, names):
    records = []
    for name in names:
        with open(os.path.join(directory, name), "rb") as file:
            records.append(torch.frombuffer(bytearray(file.read()), dtype=torch.uint8))
    records = torch.cat(records).view(-1, 3073)
    images = records[:, 1:].reshape(-1, 3, 32, 32).float() / 255
    return (images - MEAN) / DEVIATION, records[:, 0].long()


def train(initial, directory, width, epochs, batch_size, learning_rate, seed):
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    net = ResNet18(int(width))
    net.load_state_dict(torch.load(initial))
    model = nn.parallel.DistributedDataParallel(net)
    sgd = torch.optim.SGD(
        model.parameters(), lr=float(learning_rate), momentum=0.9, weight_decay=1e-5, fused=True
    )
    images, labels = read(directory, [f"data_batch_{n}.bin" for n in range(1, 6)])
    held_out, answers = read(directory, ["test_batch.bin"])
    sampler = torch.utils.data.DistributedSampler(labels, world, rank, seed=int(seed))
    for epoch in range(int(epochs)):
        sampler.set_epoch(epoch)
        model.train()
        total, count = 0.0, 0
        for batch in torch.tensor(list(sampler)).split(int(batch_size)):
            loss = F.cross_entropy(model(images[batch]), labels[batch])
            sgd.zero_grad(set_to_none=False)
            loss.backward()
            sgd.step()
            total += loss.item() * len(batch)
            count += len(batch)
        sums = torch.tensor([total, count], dtype=torch.float64)
        dist.all_reduce(sums)
        if rank == 0:
            net.eval()
            with torch.no_grad():
                right = sum(
                    int((net(part).argmax(1) == answer).sum())
                    for part, answer in zip(held_out.split(256), answers.split(256))
                )
            mean, share = sums[0].item() / sums[1].item(), 100 * right / len(answers)
            line = f"epoch {epoch + 1}/{epochs}  loss {mean:.6f}  accuracy {share:.2f} %"
            print(line, flush=True)
    dist.barrier()
    # Not by way of the interpreter's end: there a gloo thread of PyTorch that lets go of a tensor
    # known to Python aborts the process now and then.
    sys.stdout.flush()
    os._exit(0)


train(*sys.argv[1:])

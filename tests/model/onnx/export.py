#!/usr/bin/env python3
"""Exports networks from PyTorch and keeps everything but the weights.

    python3 export.py            writes *.onnx beside this script

The files in the repository were made with PyTorch 1.13 and torchvision 0.14. Weights of more than
64 elements lose their numbers and point to external data that does not exist: the reader needs shapes only.
"""
import math
import pathlib

import onnx
import torch
import torch.nn as nn
import torch.nn.functional as F
import torchvision

HERE = pathlib.Path(__file__).parent


def strip(model):
    for tensor in model.graph.initializer:
        keep = 256 if tensor.data_type == onnx.TensorProto.FLOAT else 4096
        if len(tensor.raw_data) > keep:
            tensor.ClearField("raw_data")
            tensor.data_location = onnx.TensorProto.EXTERNAL
    for node in model.graph.node:
        node.ClearField("doc_string")
    model.graph.ClearField("value_info")
    return model


def export(name, network, inputs, train=False, weights=False, **options):
    network.train(train)
    settings = {"opset_version": 13}
    if train:
        settings.update(training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False)
    settings.update(options)
    path = HERE / f"{name}.onnx"
    torch.onnx.export(network, inputs, str(path), **settings)
    if not weights:
        path.write_bytes(strip(onnx.load(str(path))).SerializeToString())
    print(name, sum(p.numel() for p in network.parameters()), path.stat().st_size)


class Product(nn.Module):
    """A linear layer over the rows of a matrix, which exporters write as Gemm between two reshapes."""

    def __init__(self, inside, outside):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(inside, outside)), nn.Parameter(torch.zeros(outside))

    def forward(self, x):
        rows = torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight)
        return rows.view(x.size()[:-1] + (self.bias.size(0),))


class Decoder(nn.Module):
    def __init__(self, width, heads, tokens, linear):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.c_proj = linear(width, 3 * width), linear(width, width)
        self.c_fc, self.mlp_proj = linear(width, 4 * width), linear(4 * width, width)
        self.dropout = nn.Dropout(0.1)
        self.heads = heads
        self.register_buffer("seen", torch.tril(torch.ones(tokens, tokens, dtype=torch.bool))[None, None])

    def split(self, x):
        n, t, c = x.size()
        return x.view(n, t, self.heads, c // self.heads).transpose(1, 2)

    def forward(self, x):
        n, t, c = x.size()
        q, k, v = (self.split(part) for part in self.c_attn(self.ln_1(x)).split(c, dim=2))
        scores = q @ k.transpose(-1, -2) / math.sqrt(c // self.heads)
        scores = torch.where(self.seen[:, :, :t, :t], scores, torch.tensor(-1e4))
        y = self.dropout(F.softmax(scores, dim=-1)) @ v
        x = x + self.c_proj(y.transpose(1, 2).contiguous().view(n, t, c))
        h = self.c_fc(self.ln_2(x))
        h = 0.5 * h * (1 + torch.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * torch.pow(h, 3))))
        return x + self.dropout(self.mlp_proj(h))


class GPT(nn.Module):
    def __init__(self, vocabulary=1000, width=64, heads=4, tokens=32, layers=2, linear=nn.Linear):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(tokens, width)
        self.h = nn.ModuleList([Decoder(width, heads, tokens, linear) for _ in range(layers)])
        self.ln_f = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, vocabulary, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(0, tokens.size(1)).unsqueeze(0))
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


class BertLayer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.dense, self.norm_1 = nn.Linear(width, width), nn.LayerNorm(width, eps=1e-12)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm_2 = nn.LayerNorm(width, eps=1e-12)
        self.heads = heads

    def split(self, x):
        return x.view(x.size()[:-1] + (self.heads, x.size(-1) // self.heads)).permute(0, 2, 1, 3)

    def forward(self, x, mask):
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.size(-1)) + mask
        y = (scores.softmax(dim=-1) @ v).permute(0, 2, 1, 3).contiguous()
        x = self.norm_1(self.dense(y.view(y.size()[:-2] + (x.size(-1),))) + x)
        return self.norm_2(self.down(F.gelu(self.up(x))) + x)


class Bert(nn.Module):
    def __init__(self, vocabulary=500, width=48, heads=4, tokens=16, layers=2):
        super().__init__()
        self.word_embeddings = nn.Embedding(vocabulary, width)
        self.position_embeddings = nn.Embedding(tokens, width)
        self.token_type_embeddings = nn.Embedding(2, width)
        self.LayerNorm = nn.LayerNorm(width, eps=1e-12)
        self.layer = nn.ModuleList([BertLayer(width, heads) for _ in range(layers)])
        self.pooler = nn.Linear(width, width)
        self.register_buffer("position_ids", torch.arange(tokens)[None])

    def forward(self, input_ids, attention_mask, token_type_ids):
        mask = (1.0 - attention_mask[:, None, None, :].float()) * -10000.0
        x = self.word_embeddings(input_ids) + self.token_type_embeddings(token_type_ids)
        x = self.LayerNorm(x + self.position_embeddings(self.position_ids[:, :input_ids.size(1)]))
        for layer in self.layer:
            x = layer(x, mask)
        return x, torch.tanh(self.pooler(x[:, 0]))


class DoubleConv(nn.Sequential):
    def __init__(self, inside, outside):
        parts = []
        for channels in (inside, outside):
            parts += [nn.Conv2d(channels, outside, 3, padding=1, bias=False)]
            parts += [nn.BatchNorm2d(outside), nn.ReLU(True)]
        super().__init__(*parts)


class UNet(nn.Module):
    def __init__(self, learned):
        super().__init__()
        self.enter, self.down_1, self.down_2 = DoubleConv(3, 8), DoubleConv(8, 16), DoubleConv(16, 32)
        self.pool = nn.MaxPool2d(2)
        if learned:
            self.up_1, self.up_2 = nn.ConvTranspose2d(32, 16, 2, stride=2), nn.ConvTranspose2d(16, 8, 2, stride=2)
        else:
            self.up_1 = nn.Upsample(scale_factor=2, mode="bilinear")
            self.up_2 = nn.Upsample(scale_factor=2)
        self.join_1 = DoubleConv(16 + (16 if learned else 32), 16)
        self.join_2 = DoubleConv(8 + (8 if learned else 16), 8)
        self.out = nn.Conv2d(8, 2, 1)

    @staticmethod
    def join(up, x, skip):
        x = up(x)
        dy, dx = skip.size(2) - x.size(2), skip.size(3) - x.size(3)
        return torch.cat([skip, F.pad(x, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])], 1)

    def forward(self, x):
        a = self.enter(x)
        b = self.down_1(self.pool(a))
        x = self.join_1(self.join(self.up_1, self.down_2(self.pool(b)), b))
        return self.out(self.join_2(self.join(self.up_2, x, a)))


class PackedAttention(nn.Module):
    """A vision transformer that takes q, k and v out of one reshaped product."""

    def __init__(self, width=48, heads=4):
        super().__init__()
        self.patch_embed = nn.Conv2d(3, width, 16, 16)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.pos_embed = nn.Parameter(torch.zeros(1, 197, width))
        self.norm, self.qkv, self.proj = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.head = nn.Linear(width, 10)
        self.heads = heads

    def forward(self, x):
        x = self.patch_embed(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.cls_token.expand(x.shape[0], -1, -1), x), 1) + self.pos_embed
        n, t, c = x.shape
        qkv = self.qkv(self.norm(x)).reshape(n, t, 3, self.heads, c // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        y = ((q * (c // self.heads) ** -0.5) @ k.transpose(-2, -1)).softmax(dim=-1) @ v
        x = x + self.proj(y.transpose(1, 2).reshape(n, t, c))
        return self.head(x[:, 0])


class Norms(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.group = nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8)
        self.instance, self.fc = nn.InstanceNorm2d(8, affine=True), nn.Linear(8, 4)

    def forward(self, x):
        return self.fc(F.silu(self.instance(F.relu6(self.group(self.conv(x))))).mean([2, 3]))


def main():
    zoo = torchvision.models
    image = torch.zeros(1, 3, 224, 224)
    tokens, more = torch.zeros(1, 32, dtype=torch.long), torch.zeros(2, 32, dtype=torch.long)
    open_batch = {"input_names": ["x"], "dynamic_axes": {"x": {0: "batch"}}}
    export("resnet18", zoo.resnet18(), image.repeat(4, 1, 1, 1), train=True)
    export("resnet18_folded", zoo.resnet18(), image)
    export("resnet50", zoo.resnet50(), image, train=True, **open_batch)
    export("alexnet", zoo.alexnet(), image)
    export("vgg16", zoo.vgg16(), image)
    export("mobilenet_v2", zoo.mobilenet_v2(), image, train=True)
    export("efficientnet_b0", zoo.efficientnet_b0(), image)
    vit = zoo.VisionTransformer(224, 16, 2, 4, 64, 128)
    export("vit", vit, image)
    export("vit_open_batch", vit, image, do_constant_folding=False, opset_version=17, **open_batch)
    export("vit_packed", PackedAttention(), image, **open_batch)
    export("gpt2_train", GPT(), more, train=True)
    export("gpt2_gemm", GPT(linear=Product), more, **open_batch)
    export("gpt2_open_batch", GPT(), more, do_constant_folding=False, **open_batch)
    # Folding stores the tied table twice: only the numbers tell that both are one.
    export("gpt2_small", GPT(vocabulary=50, width=16, tokens=8, layers=1), tokens[:, :8], weights=True)
    ids = tokens[:, :16]
    names = ["input_ids", "attention_mask", "token_type_ids"]
    export("bert", Bert(), (ids, torch.ones_like(ids), ids), input_names=names)
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64), 2)
    export("encoder", encoder, torch.zeros(10, 1, 32), train=True)
    export("unet", UNet(True), torch.zeros(1, 3, 64, 64), train=True)
    export("unet_upsample", UNet(False), torch.zeros(2, 3, 64, 64), train=True, **open_batch)
    export("norms", Norms(), torch.zeros(1, 3, 16, 16))
    export("resnet3d", torchvision.models.video.r3d_18(), torch.zeros(1, 3, 8, 112, 112))


if __name__ == "__main__":
    main()

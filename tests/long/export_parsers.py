"""Reads what `paradl plan --export` wrote with the frameworks' own parsers.

    export_parsers.py FRAMEWORK CHECKOUT FOLDER...

Every folder is one export. The parser and its checks are the framework's, imported from its checkout; libraries that such an import
only wants to be there (torch, apex, ...) and that are not installed are stood in for. Every option that was written has to come out
with its value. What the framework refuses or changes is printed, and the exit status is 1, unless the export said that it would be refused.
"""
import argparse
import dataclasses
import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import importlib.util
import inspect
import json
import logging
import os
import re
import shlex
import sys
import tomllib
import types
import typing
import warnings

import pydantic
import yaml

# --- Stand-ins ---------------------------------------------------------------------------------------------------------------------


class Anything(type(typing.Protocol)):
    """Type of a stand-in: a base class, a decorator, a callable, a constant, whatever the importing module wants."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return stand_in(name)

    def __call__(cls, *arguments, **named):
        if cls.__dict__.get("_stands_in") and len(arguments) == 1 and not named and inspect.isroutine(arguments[0]):
            return arguments[0]  # a decorator
        return super().__call__(*arguments) if cls.__dict__.get("_stands_in") else type.__call__(cls, *arguments, **named)

    def __getitem__(cls, item):
        return cls

    def __or__(cls, other):
        return cls

    __ror__ = __or__

    def __iter__(cls):
        return iter(())

    def __lt__(cls, other):
        return False

    __gt__ = __lt__
    __le__ = __ge__ = lambda cls, other: True


class Instance(metaclass=Anything):
    def __init__(self, *arguments, **named):
        pass

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return stand_in(name)

    def __call__(self, *arguments, **named):
        return arguments[0] if len(arguments) == 1 and not named and callable(arguments[0]) else Instance()

    def __bool__(self):
        return False

    def __iter__(self):
        return iter(())

    def __getitem__(self, item):
        return Instance()

    def __enter__(self):
        return self

    def __exit__(self, *what):
        return False

    def _number(self, *other):
        return 0

    __int__ = __index__ = __len__ = __add__ = __radd__ = __mul__ = __rmul__ = __sub__ = __floordiv__ = __mod__ = _number


def stand_in(name):
    return Anything(name, (Instance,), {"_stands_in": True})


def no_compiler(*arguments, **named):
    raise ImportError("nothing is compiled here")


class Format:
    """A number format of torch."""


# What is read for its value while settings are parsed: a machine of H100s.
VALUES = {
    "torch": {"__version__": "2.9.0", "dtype": Format, **{name: Format() for name in ("float32", "float16", "bfloat16", "half", "float")}},
    "torch.version": {"cuda": "12.9", "hip": None, "git_version": "0"},
    "torch.cuda": {
        "is_available": lambda: True,
        "device_count": lambda: 8,
        "get_device_capability": lambda *which: (9, 0),
        "get_device_properties": lambda *which: types.SimpleNamespace(major=9, minor=0, name="H100"),
    },
    "torch.distributed": {
        "is_initialized": lambda: False,
        "is_available": lambda: True,
        "get_rank": lambda *group: 0,
        "get_world_size": lambda *group: int(os.environ.get("WORLD_SIZE", "1")),
    },
    "torch.nn.functional": {"silu": lambda x: x, "gelu": lambda x: x},
    "torch.utils.cpp_extension": {"CUDA_HOME": "/usr/local/cuda", "load_inline": no_compiler},
    "transformer_engine": {"__version__": "2.9.0"},
    "tyro": {"cli": lambda kind, args, default, **named: default},
    "numpy": {"__version__": "2.0.0"},
    "triton": {"__version__": "3.5.0"},
}


class Module(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        full = f"{self.__name__}.{name}"
        value = importlib.import_module(full) if full in VALUES else stand_in(name)
        setattr(self, name, value)
        return value


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Stands in for the named libraries where they are not installed."""

    def __init__(self, names):
        self.names = {name for name in names if importlib.util.find_spec(name) is None}

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in self.names:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return Module(spec.name)

    def exec_module(self, module):
        module.__path__ = []
        for name, value in VALUES.get(module.__name__, {}).items():
            setattr(module, name, value)


def prepare(checkout, *names):
    sys.path.insert(0, checkout)
    if importlib.util.find_spec("packaging") is None:  # versions are compared in earnest: pip has a copy
        for part in ("", ".version", ".specifiers", ".requirements"):
            sys.modules["packaging" + part] = importlib.import_module("pip._vendor.packaging" + part)
    sys.dont_write_bytecode = True
    finder = Finder(names)
    sys.meta_path.append(finder)
    if not hasattr(typing, "override"):  # Python 3.11
        typing.override = lambda function: function
    version = importlib.metadata.version
    importlib.metadata.version = lambda name: VALUES.get(name, {}).get("__version__", "1.0") if name in finder.names else version(name)


# --- What was exported -------------------------------------------------------------------------------------------------------------


def read_plan(folder):
    with open(os.path.join(folder, "plan.yaml")) as file:
        plan = yaml.safe_load(file)
    plan["axes"] = {}
    for name, size in (pair for axis in plan["mesh"] for pair in axis.items()):
        # Replicas that share experts out are a data axis of their own.
        name = "data" if name.startswith("data") else name.replace("spatial_0", "context")
        plan["axes"][name] = plan["axes"].get(name, 1) * size
    return plan


def devices_of(plan):
    count = 1
    for size in plan["axes"].values():
        count *= size
    return count


def same(written, read):
    """Whether a value that was written is the one that was read."""
    if isinstance(read, bool) or isinstance(written, bool):
        return str(written).lower() == str(read).lower()
    try:
        return abs(float(written) - float(read)) <= 1e-12 * abs(float(written))
    except (TypeError, ValueError):
        pass
    if isinstance(read, (list, tuple)) and not isinstance(written, (list, tuple)):
        return len(read) == 1 and same(written, read[0])
    return str(written) == str(getattr(read, "value", read))


def flat(tree, prefix=""):
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


# --- Frameworks: a check returns how many values it compared, and what was wrong -------------------------------------------------------


def shell_options(path):
    """The words of ARGS=( ... ) as pairs of option and value; a flag has the value True."""
    with open(path) as file:
        words = shlex.split(re.search(r"ARGS=\((.*)\)", file.read(), re.S).group(1), comments=True)
    options = {}
    for word in words:
        if word.startswith("--"):
            last = word
            options[last] = True
        else:
            options[last] = word
    return words, options


def check_megatron(folder, plan):
    arguments = importlib.import_module("megatron.training.arguments")
    words, options = shell_options(os.path.join(folder, "megatron_args.sh"))
    wrong = []
    # torchrun gives these.
    os.environ.update(WORLD_SIZE=str(devices_of(plan)), RANK="0", LOCAL_RANK="0")
    os.environ.pop("CUDA_DEVICE_MAX_CONNECTIONS", None)
    with open(os.path.join(folder, "megatron_args.sh")) as file:
        os.environ.update(re.findall(r"^export (\w+)=(\w+)", file.read(), re.M))
    sys.argv = ["pretrain_gpt.py", *words]
    parsers = []
    original = argparse.ArgumentParser.parse_args
    argparse.ArgumentParser.parse_args = lambda self, *rest, **named: (parsers.append(self), original(self, *rest, **named))[1]
    try:
        args = arguments.parse_args()
        actions = {option: action for action in parsers[0]._actions for option in action.option_strings}
        for option, written in options.items():
            action = actions[option]
            expected = action.const if written is True else written
            if option == "--moe-layer-freq":
                expected = eval(expected)
            if not same(expected, getattr(args, action.dest)):
                wrong.append(f"{option} {expected}: read as {getattr(args, action.dest)}")
        arguments.validate_args(args)
        for option, written in options.items():
            action = actions[option]
            value = getattr(args, action.dest, None)
            expected = action.const if written is True else written
            if not same(expected, value) and option not in CHANGED_BY_MEGATRON:
                wrong.append(f"{option} {expected}: validate_args makes it {value}")
        configuration = arguments.core_transformer_config_from_args(args)
        for module, name in (("optimizer", "OptimizerConfig"), ("distributed", "DistributedDataParallelConfig")):
            kind = getattr(importlib.import_module(f"megatron.core.{module}"), name)
            kind(**{field.name: getattr(args, field.name) for field in dataclasses.fields(kind) if hasattr(args, field.name)})
    finally:
        argparse.ArgumentParser.parse_args = original
    axes = plan["axes"]
    meant = {
        "data_parallel_size": axes.get("data", 1),
        "tensor_model_parallel_size": axes.get("tensor", 1),
        "pipeline_model_parallel_size": axes.get("pipeline", 1),
        "context_parallel_size": axes.get("context", 1),
    }
    virtual = plan.get("pipeline", {}).get("virtual_stages", 1)
    meant["virtual_pipeline_model_parallel_size"] = virtual if virtual > 1 else None
    for name, value in meant.items():
        if getattr(args, name) != value:
            wrong.append(f"{name}: {value} in the plan, {getattr(args, name)} in Megatron-LM")
    micro = args.global_batch_size // (args.micro_batch_size * args.data_parallel_size)
    if micro != plan.get("pipeline", {}).get("micro_batches", micro):
        wrong.append(f"micro-batches: {plan['pipeline']['micro_batches']} in the plan, {micro} in Megatron-LM")
    if configuration.num_layers != args.num_layers:
        wrong.append("num_layers of the configuration")
    return len(options) + len(meant) + 1, wrong


# Texts that become objects.
CHANGED_BY_MEGATRON = {"--pipeline-model-parallel-layout", "--moe-layer-freq"}


def check_deepspeed(folder, plan):
    config = importlib.import_module("deepspeed.runtime.config")
    with open(os.path.join(folder, "ds_config.json")) as file:
        written = json.load(file)
    axes, wrong, count = plan["axes"], [], 0
    devices, data = devices_of(plan), axes.get("data", 1)
    # What deepspeed.initialize() gives: a mesh where the settings ask for one, the ranks of a PipelineModule, else all ranks.
    config.dist.get_rank = lambda group=None: 0
    config.dist.get_world_size = lambda group=None: devices if group is None else group
    mesh = ranks = None
    if "sequence_parallel_size" in written and "data_parallel_size" in written:
        mesh = types.SimpleNamespace(get_group=lambda mesh_dim: written["data_parallel_size"])
    elif axes.get("pipeline", 1) > 1:
        ranks = types.SimpleNamespace(get_data_parallel_world_size=lambda: data)
    read = config.DeepSpeedConfig(written, mpu=ranks, mesh_device=mesh)
    sections = {
        "zero_optimization": read.zero_config,
        "bf16": read.bfloat16_config,
        "fp16": read.float16_config,
        "tensor_parallel": read.tensor_parallel_config,
    }
    for key, value in flat(written):
        section, _, rest = key.partition(".")
        if section in sections:
            got = sections[section]
            for part in rest.split("."):
                got = getattr(got, part)
        elif section == "optimizer":
            got = read.optimizer_name if rest == "type" else read.optimizer_params[rest.removeprefix("params.")]
        else:  # the sizes of the mesh are read by initialize()
            got = written[key] if key in ("sequence_parallel_size", "data_parallel_size") else getattr(read, key)
        count += 1
        if not same(value, got) and not same(str(value).lower(), got):
            wrong.append(f"{key} {value}: read as {got}")
    for name, section in sections.items():
        if section.model_extra:
            wrong.append(f"{name} does not know {sorted(section.model_extra)}")
    micro = plan["pipeline"]["micro_batches"]
    batch = read.train_micro_batch_size_per_gpu * read.gradient_accumulation_steps * data
    if read.gradient_accumulation_steps != micro or batch != plan["data"]["batch"]:
        wrong.append(f"batch of {batch} by {micro} micro-batches")
    return count + 2, wrong


def check_torchtitan(folder, plan):
    manager = importlib.import_module("torchtitan.config.manager")
    dimensions = importlib.import_module("torchtitan.distributed.parallel_dims")
    path = os.path.join(folder, "torchtitan.toml")
    with open(path, "rb") as file:
        written = tomllib.load(file)
    read = manager.ConfigManager().parse_args([f"--job.config_file={path}"])
    axes, wrong, count = plan["axes"], [], 0
    for section, values in written.items():
        types_of = typing.get_type_hints(type(getattr(read, section)))
        for key, value in values.items():
            count += 1
            pydantic.TypeAdapter(types_of[key]).validate_python(value)  # tyro does, where it is installed
            if getattr(getattr(read, section), key) != value:
                wrong.append(f"{section}.{key} {value}: read as {getattr(getattr(read, section), key)}")
    p, t = read.parallelism, read.training
    ranks = dimensions.ParallelDims(
        dp_replicate=p.data_parallel_replicate_degree, dp_shard=p.data_parallel_shard_degree, cp=p.context_parallel_degree,
        tp=p.tensor_parallel_degree, pp=p.pipeline_parallel_degree, ep=p.expert_parallel_degree, etp=p.expert_tensor_parallel_degree,
        world_size=devices_of(plan))
    meant = {"tp": axes.get("tensor", 1), "pp": axes.get("pipeline", 1), "cp": axes.get("context", 1)}
    for name, value in meant.items():
        if getattr(ranks, name) != value:
            wrong.append(f"{name}: {value} in the plan, {getattr(ranks, name)} in torchtitan")
    experts = ranks.dp_shard * ranks.cp * ranks.tp
    if ranks.ep > 1 and experts % (ranks.ep * ranks.etp) != 0:
        wrong.append(f"{ranks.ep} x {ranks.etp} ranks of experts out of {experts}")
    # As train.py and pipeline_parallel.py do.
    replicas = ranks.dp_replicate * ranks.dp_shard
    steps, rest = divmod(t.global_batch_size, t.local_batch_size * replicas)
    if ranks.pp > 1:
        micro, more = divmod(t.local_batch_size, p.pipeline_parallel_microbatch_size)
        steps, rest = steps * micro, rest + more
    if rest != 0 or steps != plan["pipeline"]["micro_batches"]:
        wrong.append(f"{steps} micro-batches, {rest} samples left")
    return count + len(meant) + 1, wrong


def check_fsdp(folder, plan):
    launch = importlib.import_module("accelerate.commands.launch")
    path = os.path.join(folder, "accelerate.yaml")
    with open(path) as file:
        written = yaml.safe_load(file)
    args = launch.launch_command_parser().parse_args(["--config_file", path, "--machine_rank", "0", "--main_process_ip", "host",
                                                      "--main_process_port", "29500", "program.py"])
    args, defaults, _ = launch._validate_launch_command(args)
    wrong, count = [], 0
    for key, value in flat(written):
        section, _, rest = key.partition(".")
        got = getattr(defaults, section)[rest] if rest else getattr(args, key, getattr(defaults, key))
        if key in ("distributed_type", "compute_environment"):
            got = getattr(defaults, key)
        if section == "fsdp_config" and not hasattr(args, rest):
            wrong.append(f"the launcher has no --{rest}")
        count += 1
        if not same(value, got):
            wrong.append(f"{key} {value}: read as {got}")
    if args.num_processes != devices_of(plan):
        wrong.append(f"{args.num_processes} processes of {devices_of(plan)}")
    return count + 1, wrong


CHECKS = {"megatron": check_megatron, "deepspeed": check_deepspeed, "torchtitan": check_torchtitan, "fsdp": check_fsdp}
MISSING = {
    "megatron": ["torch", "numpy", "transformer_engine", "triton"],
    "deepspeed": ["torch", "numpy", "hjson", "psutil", "cpuinfo", "ninja", "tqdm", "msgpack", "einops"],
    "torchtitan": ["torch", "tyro", "tokenizers", "triton"],
    "fsdp": ["torch", "numpy", "psutil", "huggingface_hub", "safetensors"],
}


def main():
    framework, checkout, folders = sys.argv[1], sys.argv[2], sys.argv[3:]
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    prepare(checkout, *MISSING[framework])
    bad = total = 0
    for folder in folders:
        out, sys.stdout = sys.stdout, open(os.devnull, "w")
        try:
            count, wrong = CHECKS[framework](folder, read_plan(folder))
        except (SystemExit, Exception) as error:
            if os.environ.get("TRACEBACK"):
                raise
            with open(os.path.join(folder, "first_iterations.txt")) as file:
                noted = isinstance(error, AssertionError) and "refuses them" in file.read()
            count, wrong = 0, [] if noted else [f"{type(error).__name__}: {error}"]
        finally:
            sys.stdout = out
        bad += bool(wrong)
        total += count
        for line in wrong:
            print(f"{framework} {os.path.basename(folder)}: {line}")
    print(f"{'FAIL' if bad else 'ok  '} {framework}: {len(folders)} plans, {total} values, {bad} plans refused or read otherwise")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()

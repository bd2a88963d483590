"""The part of the kubelet's device plugin API that a plugin of plain devices needs.

Written after `k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1/api.proto`; fields that are not named here are
skipped by protobuf when they arrive. A table instead of generated code: it needs no compiler and fits on one
screen.
"""

from collections.abc import Mapping
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

VERSION = "v1beta1"
REGISTRATION_SERVICE = f"{VERSION}.Registration"
PLUGIN_SERVICE = f"{VERSION}.DevicePlugin"
HEALTHY = "Healthy"
UNHEALTHY = "Unhealthy"

# Message -> field -> (number, type). "[]" marks a repeated field, "map" a map<string, string>.
_MESSAGES: Mapping[str, Mapping[str, tuple[int, str]]] = {
    "Empty": {},
    "DevicePluginOptions": {
        "pre_start_required": (1, "bool"),
        "get_preferred_allocation_available": (2, "bool"),
    },
    "RegisterRequest": {
        "version": (1, "string"),
        "endpoint": (2, "string"),
        "resource_name": (3, "string"),
        "options": (4, "DevicePluginOptions"),
    },
    "Device": {"ID": (1, "string"), "health": (2, "string")},
    "ListAndWatchResponse": {"devices": (1, "[]Device")},
    "ContainerAllocateRequest": {"devices_ids": (1, "[]string")},
    "AllocateRequest": {"container_requests": (1, "[]ContainerAllocateRequest")},
    "ContainerAllocateResponse": {"envs": (1, "map")},
    "AllocateResponse": {"container_responses": (1, "[]ContainerAllocateResponse")},
}

_Field: Any = descriptor_pb2.FieldDescriptorProto
_SCALARS = {"string": _Field.TYPE_STRING, "bool": _Field.TYPE_BOOL}


def _file() -> Any:
    file: Any = descriptor_pb2.FileDescriptorProto(name="deviceplugin.proto", package=VERSION, syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            _add_field(message, field, number, kind)
    return file


def _add_field(message: Any, name: str, number: int, kind: str) -> None:
    if kind == "map":
        kind = f"[]{message.name}.{_add_map_entry(message, name)}"
    field = message.field.add(name=name, number=number)
    field.label = _Field.LABEL_REPEATED if kind.startswith("[]") else _Field.LABEL_OPTIONAL
    element = kind.removeprefix("[]")
    if element in _SCALARS:
        field.type = _SCALARS[element]
    else:
        field.type = _Field.TYPE_MESSAGE
        field.type_name = f".{VERSION}.{element}"


def _add_map_entry(message: Any, field: str) -> str:
    """Adds the nested message that a map field is in truth; its name is prescribed."""
    entry = message.nested_type.add(name=f"{field.capitalize()}Entry")
    entry.options.map_entry = True
    _add_field(entry, "key", 1, "string")
    _add_field(entry, "value", 2, "string")
    name: str = entry.name
    return name


def _classes() -> dict[str, Any]:
    pool: Any = descriptor_pool.DescriptorPool()
    pool.Add(_file())
    find: Any = message_factory.GetMessageClass
    return {name: find(pool.FindMessageTypeByName(f"{VERSION}.{name}")) for name in _MESSAGES}


_CLASSES = _classes()
Empty = _CLASSES["Empty"]
DevicePluginOptions = _CLASSES["DevicePluginOptions"]
RegisterRequest = _CLASSES["RegisterRequest"]
Device = _CLASSES["Device"]
ListAndWatchResponse = _CLASSES["ListAndWatchResponse"]
ContainerAllocateRequest = _CLASSES["ContainerAllocateRequest"]
AllocateRequest = _CLASSES["AllocateRequest"]
ContainerAllocateResponse = _CLASSES["ContainerAllocateResponse"]
AllocateResponse = _CLASSES["AllocateResponse"]

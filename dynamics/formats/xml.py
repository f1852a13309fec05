"""Reading XML from untrusted files or text, and numbers in it; errors name element and attribute."""

from __future__ import annotations

from io import BytesIO, StringIO
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, TreeBuilder
from xml.sax import SAXException
from xml.sax.handler import ContentHandler
from xml.sax.xmlreader import AttributesImpl, InputSource

import defusedxml.sax
import numpy as np
from defusedxml import DefusedXmlException

from dynamics.model.joints import Spherical


class _Elements(ContentHandler):
    """Builder of elements whose names keep their namespace prefixes."""

    def __init__(self) -> None:
        super().__init__()
        self.builder = TreeBuilder()

    def startElement(self, name: str, attrs: AttributesImpl) -> None:
        self.builder.start(name, dict(attrs.items()))

    def endElement(self, name: str) -> None:
        self.builder.end(name)

    def characters(self, content: str) -> None:
        self.builder.data(content)

    def skippedEntity(self, name: str) -> None:
        raise DefusedXmlException(f"an entity, {name[:80]!r}")


def root_of(source: str | bytes) -> Element:
    """The root element of XML, with all its content.

    Prefixes are kept in names, as `drake:gear_ratio`: files of robots use them without declaring them.  Text before the
    first "<", as a byte order mark or an empty line, is skipped.

    Raises DefusedXmlException for entities; SAXException, ValueError or LookupError for XML that is not well-formed.
    """
    source = _stripped(source)
    elements, parser, given = _Elements(), defusedxml.sax.make_parser(), InputSource()
    stream: Any = StringIO(source) if isinstance(source, str) else BytesIO(source)
    (given.setCharacterStream if isinstance(source, str) else given.setByteStream)(stream)
    parser.setContentHandler(elements)
    parser.parse(given)
    return elements.builder.close()


def _stripped(source: str | bytes) -> str | bytes:
    if isinstance(source, str):
        return source.lstrip("\ufeff \t\r\n")
    return source.removeprefix(b"\xef\xbb\xbf").lstrip()


def parse(path_or_text: str | Path, kind: str = "URDF", argument: str = "path_or_text") -> Element:
    """The <robot> element of a file, or of text, which begins with "<"; `kind` and `argument` are named in errors."""
    source: str | bytes
    if isinstance(path_or_text, str) and path_or_text.lstrip("\ufeff \t\r\n").startswith("<"):
        origin, source = f"{kind} text", path_or_text
    elif isinstance(path_or_text, (str, Path)):
        origin, source = f"{kind} file {str(path_or_text)[:200]!r}", _read_file(path_or_text, kind, argument)
    else:
        raise TypeError(f"{argument}: got {type(path_or_text).__name__}, expected a path or {kind} text")
    try:
        robot = root_of(source)
    except DefusedXmlException as error:
        raise ValueError(f"{origin}: XML entities and external references are refused, got {error}") from None
    except (SAXException, ValueError, LookupError) as error:  # bad syntax, bad characters, unknown encoding
        raise ValueError(f"{origin}: not well-formed XML ({error})") from None
    if robot.tag != "robot":
        raise ValueError(f"{origin}: the root element is <{robot.tag}>, expected <robot>")
    return robot


def _read_file(path: str | Path, kind: str, argument: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except PermissionError:
        raise
    except (OSError, ValueError):  # among them a directory, a name that is too long, a null character
        raise FileNotFoundError(
            f"{argument}: there is no file {str(path)[:200]!r}, and it is no {kind} text, which would begin with '<'"
        ) from None


def by_name(robot: Element, *tags: str) -> dict[str, Element]:
    """Elements of tags by their names, which must be unique among all of them."""
    elements: dict[str, Element] = {}
    for element in (each for tag in tags for each in robot.findall(tag)):
        name = attribute_of(element, "name", f"<{element.tag}>")
        if name in elements:
            raise ValueError(f"<{element.tag} name={name!r}>: there are two of this name")
        elements[name] = element
    return elements


def attribute_of(element: Element, attribute: str, where: str) -> str:
    """The text of a required attribute."""
    value = element.get(attribute)
    if not value:
        raise ValueError(f"{where}: attribute {attribute!r} is missing or empty")
    return value


def child_of(element: Element, tag: str, where: str) -> Element:
    """The first child of a tag, which is required."""
    child = element.find(tag)
    if child is None:
        raise ValueError(f"{where}: element <{tag}> is missing")
    return child


def numbers_of(element: Element, attribute: str, count: int, where: str, default: str | None = None) -> np.ndarray:
    """The finite numbers (count,) of an attribute of `element`, which is named in errors as a part of `where`."""
    where = f"{where} <{element.tag}>"
    text = element.get(attribute, default)
    if text is None:
        raise ValueError(f"{where}: attribute {attribute!r} is missing")
    try:
        numbers = np.array([float(word) for word in text.split()])
    except ValueError:
        numbers = np.array([])
    if numbers.shape != (count,) or not np.isfinite(numbers).all():
        expected = "a finite number" if count == 1 else f"{count} finite numbers"
        raise ValueError(f"{where}: attribute {attribute!r} is {text!r}, expected {expected}")
    return numbers


def number_of(element: Element, attribute: str, where: str, default: str | None = None) -> float:
    """`numbers_of` for one number."""
    return float(numbers_of(element, attribute, 1, where, default)[0])


def read_origin(element: Element, where: str) -> tuple[np.ndarray, np.ndarray]:
    """Placement (R, p) of <origin xyz rpy>, R = Rz(yaw) Ry(pitch) Rx(roll), or of <origin xyz quat_xyzw>."""
    origin = element.find("origin")
    if origin is None:
        return np.eye(3), np.zeros(3)
    p = numbers_of(origin, "xyz", 3, where, "0 0 0")
    if "quat_xyzw" in origin.attrib:
        quaternion = numbers_of(origin, "quat_xyzw", 4, where)
        size = np.linalg.norm(quaternion)
        if "rpy" in origin.attrib:
            raise ValueError(f"{where} <origin>: got both attributes 'rpy' and 'quat_xyzw', expected one of them")
        if not 0.0 < size < np.inf:
            got = f"attribute 'quat_xyzw' is {origin.get('quat_xyzw')!r}"
            raise ValueError(f"{where} <origin>: {got}, expected a quaternion of length one")
        return Spherical().placement(quaternion / size)[0], p
    (cr, cp, cy), (sr, sp, sy) = (f(numbers_of(origin, "rpy", 3, where, "0 0 0")) for f in (np.cos, np.sin))
    Rz = np.array([[cy, -sy, 0.0], [sy, cy, 0.0], [0.0, 0.0, 1.0]])
    Ry = np.array([[cp, 0.0, sp], [0.0, 1.0, 0.0], [-sp, 0.0, cp]])
    Rx = np.array([[1.0, 0.0, 0.0], [0.0, cr, -sr], [0.0, sr, cr]])
    return Rz @ Ry @ Rx, p

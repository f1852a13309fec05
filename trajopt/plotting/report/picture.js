"use strict";
/* Draws a scene: bodies, which are triangles on frames that move (each vertex has its own, so that what bends is no
   exception), and layers of capsules, which are all else: tubes, arrows, points, lines.  Arrays are little-endian, in
   base 64 (see `player_scene.py`).  Between frames everything moves along straight lines. */

// ------------------------------------------------------------------------------------------------ small algebra
const minus = (a, b) => [a[0] - b[0], a[1] - b[1], a[2] - b[2]];
const moved = (a, s, b) => [a[0] + s * b[0], a[1] + s * b[1], a[2] + s * b[2]];
const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
const scaled = (s, a) => [s * a[0], s * a[1], s * a[2]];
const unit = (a) => scaled(1 / (Math.hypot(...a) || 1), a);
const clamped = (x, low, high) => Math.min(high, Math.max(low, x));
const decoded = (text, Kind) => new Kind(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);

/** v turned by the unit quaternion q = w x y z, or back by its inverse. */
function turned(q, v, sign = 1) {
  const r = scaled(sign, [q[1], q[2], q[3]]);
  return moved(v, 2, cross(r, moved(cross(r, v), q[0], v)));
}

// ------------------------------------------------------------------------------------------------ shaders
const BODY_VERTEX = `#version 300 es
precision highp float;
uniform mat4 camera;
uniform highp sampler2D places;  // of each body a quaternion w x y z, then a position
in vec3 position, normal, color;
in float owner;
out vec3 world, up, paint;
vec4 place(int i) { int w = textureSize(places, 0).x; return texelFetch(places, ivec2(i % w, i / w), 0); }
vec3 turned(vec4 q, vec3 v) { return v + 2.0 * cross(q.yzw, cross(q.yzw, v) + q.x * v); }
void main() {
  int i = 2 * int(owner + 0.5);
  vec4 q = place(i);
  world = turned(q, position) + place(i + 1).xyz;
  up = turned(q, normal);
  paint = color;
  gl_Position = camera * vec4(world, 1.0);
}`;
const CAPSULE_VERTEX = `#version 300 es
precision highp float;
uniform mat4 camera;
uniform vec3 eye, back, tint;
uniform float thinnest;  // least radius at the distance 1
in vec4 corner;          // of a unit ball; 1 where it belongs to the second end
in vec4 a, b;            // ends and their radii
out vec3 world, up, paint;
void main() {
  vec3 along = b.xyz - a.xyz, side;
  float l = length(along);
  vec3 z = l > 1e-9 ? along / l : vec3(0.0, 0.0, 1.0);
  side = normalize(cross(abs(z.z) < 0.9 ? vec3(0.0, 0.0, 1.0) : vec3(1.0, 0.0, 0.0), z));
  up = side * corner.x + cross(z, side) * corner.y + z * corner.z;
  world = mix(a.xyz, b.xyz, corner.w);
  float r = mix(a.w, b.w, corner.w);
  world += (r > 0.0 ? max(r, thinnest * dot(eye - world, back)) : 0.0) * up;
  paint = tint;
  gl_Position = camera * vec4(world, 1.0);
}`;
const FRAGMENT = `#version 300 es
precision highp float;
uniform vec3 eye;
uniform float opacity, plain;  // plain: 1 for what light does not change
in vec3 world, up, paint;
out vec4 pixel;
void main() {
  vec3 to_eye = normalize(eye - world), n = normalize(up);
  n *= dot(n, to_eye) < 0.0 ? -1.0 : 1.0;
  float light = 0.42 + 0.38 * max(dot(n, normalize(vec3(0.35, -0.45, 0.82))), 0.0) + 0.25 * dot(n, to_eye);
  pixel = vec4(paint * mix(light, 1.0, plain), opacity);
}`;

// ------------------------------------------------------------------------------------------------ shapes
/** Triangles of a capsule: rings of a unit ball, that at the equator for both ends. */
function capsuleCorners(rings = 4, turns = 12) {
  const rows = [];
  for (let i = -rings; i <= rings; i++) {
    const angle = (0.5 * Math.PI * i) / rings;
    for (const end of i < 0 ? [0] : i > 0 ? [1] : [0, 1]) rows.push([Math.cos(angle), Math.sin(angle), end]);
  }
  const at = (r, t) => {
    const [radius, height, end] = rows[r], angle = (2 * Math.PI * t) / turns;
    return [radius * Math.cos(angle), radius * Math.sin(angle), height, end];
  };
  const corners = [];
  for (let r = 0; r + 1 < rows.length; r++)
    for (let t = 0; t < turns; t++)
      for (const [i, j] of [[0, 0], [0, 1], [1, 1], [0, 0], [1, 1], [1, 0]]) corners.push(...at(r + i, t + j));
  return new Float32Array(corners);
}

/** Corners of all triangles, with normals in the axes of their owners: those of the faces around a vertex together, but
    for faces across a sharp edge. */
function bodyCorners(mesh, first) {
  const { vertices, owners, faces } = mesh, count = faces.length / 3;
  const vertex = (i) => [vertices[3 * i], vertices[3 * i + 1], vertices[3 * i + 2]];
  const turn = (i) => first.subarray(7 * owners[i], 7 * owners[i] + 4);
  const inWorld = (i) => {
    const p = first.subarray(7 * owners[i] + 4, 7 * owners[i] + 7);
    return moved(turned(turn(i), vertex(i)), 1, p);
  };
  const around = Array.from({ length: vertices.length / 3 }, () => []), flat = [];
  for (let f = 0; f < count; f++) {
    const [a, b, c] = [0, 1, 2].map((k) => inWorld(faces[3 * f + k]));
    flat.push(cross(minus(b, a), minus(c, a)));
    for (let k = 0; k < 3; k++) around[faces[3 * f + k]].push(f);
  }
  const corners = new Float32Array(3 * count * 10);
  mesh.solids.forEach((solid) => {
    for (let c = 3 * solid.start; c < 3 * solid.stop; c++) {
      const i = faces[c], own = unit(flat[Math.floor(c / 3)]);
      let sum = [0, 0, 0];
      for (const f of around[i]) if (dot(unit(flat[f]), own) > 0.75) sum = moved(sum, 1, flat[f]);
      corners.set([...vertex(i), ...turned(turn(i), unit(sum), -1), ...solid.color.slice(0, 3), owners[i]], 10 * c);
    }
  });
  return corners;
}

// ------------------------------------------------------------------------------------------------ drawing
class Picture {
  constructor(canvas, scene) {
    const gl = canvas.getContext("webgl2", { alpha: false, antialias: true });
    if (!gl) throw new Error("this browser has no WebGL 2");
    Object.assign(this, { gl, canvas, scene });
    gl.enable(gl.DEPTH_TEST);
    gl.blendFunc(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA);
    this.bodies = this.program(BODY_VERTEX);
    this.capsules = this.program(CAPSULE_VERTEX);
    this.corners = capsuleCorners();
    const ball = this.buffer(this.corners, gl.STATIC_DRAW);
    for (const layer of scene.layers) {
      layer.numbers = decoded(layer.data, Float32Array);
      layer.buffer = this.buffer(layer.numbers.subarray(0, 8 * layer.count), gl.DYNAMIC_DRAW);
      layer.array = gl.createVertexArray();
      gl.bindVertexArray(layer.array);
      this.attribute(this.capsules, "corner", ball, 4, 4, 0, 0);
      this.attribute(this.capsules, "a", layer.buffer, 4, 8, 0, 1);
      this.attribute(this.capsules, "b", layer.buffer, 4, 8, 4, 1);
    }
    if (scene.mesh) this.addBodies(scene.mesh);
  }

  addBodies(mesh) {
    const gl = this.gl;
    mesh.vertices = decoded(mesh.vertices, Float32Array);
    mesh.owners = decoded(mesh.owners, Uint16Array);
    mesh.faces = decoded(mesh.faces, Uint32Array);
    mesh.placements = decoded(mesh.placements, Float32Array);
    const buffer = this.buffer(bodyCorners(mesh, mesh.placements), gl.STATIC_DRAW);
    mesh.array = gl.createVertexArray();
    gl.bindVertexArray(mesh.array);
    [["position", 3, 0], ["normal", 3, 3], ["color", 3, 6], ["owner", 1, 9]].forEach(([name, size, offset]) =>
      this.attribute(this.bodies, name, buffer, size, 10, offset, 0));
    gl.bindTexture(gl.TEXTURE_2D, gl.createTexture());
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, gl.NEAREST);
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MAG_FILTER, gl.NEAREST);
    this.width = Math.min(2 * mesh.count, 1024);
    this.texels = new Float32Array(4 * this.width * Math.ceil((2 * mesh.count) / this.width));
  }

  program(vertex) {
    const gl = this.gl, program = gl.createProgram();
    for (const [kind, text] of [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, text);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    if (!gl.getProgramParameter(program, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(program));
    return program;
  }

  buffer(numbers, use) {
    const gl = this.gl, buffer = gl.createBuffer();
    gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
    gl.bufferData(gl.ARRAY_BUFFER, numbers, use);
    return buffer;
  }

  attribute(program, name, buffer, size, stride, offset, divisor) {
    const gl = this.gl, place = gl.getAttribLocation(program, name);
    gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
    gl.enableVertexAttribArray(place);
    gl.vertexAttribPointer(place, size, gl.FLOAT, false, 4 * stride, 4 * offset);
    gl.vertexAttribDivisor(place, divisor);
  }

  /** The frame before this time, and the share of the way to the next. */
  frame(time) {
    const times = this.scene.times;
    let f = 0;
    while (f + 2 < times.length && times[f + 1] <= time) f++;
    if (times.length < 2) return [0, 0];
    return [f, clamped((time - times[f]) / (times[f + 1] - times[f]), 0, 1)];
  }

  /** The numbers of a frame, n of them, on the way to the next. */
  between(numbers, n, [f, share]) {
    const now = numbers.slice(n * f, n * f + n);
    if (share > 0) for (let i = 0; i < n; i++) now[i] += share * (numbers[n * (f + 1) + i] - now[i]);
    return now;
  }

  draw(time, view, dark) {
    const { gl, canvas, scene } = this, frame = this.frame(time);
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.max(1, Math.round(canvas.clientWidth * ratio));
    canvas.height = Math.max(1, Math.round(canvas.clientHeight * ratio));
    gl.viewport(0, 0, canvas.width, canvas.height);
    gl.clearColor(...(dark ? [0.1, 0.11, 0.13] : [0.99, 0.99, 0.98]), 1);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    const seen = view.seen(canvas.width / canvas.height);
    const use = (program) => {
      gl.useProgram(program);
      const at = (name) => gl.getUniformLocation(program, name);
      gl.uniformMatrix4fv(at("camera"), false, seen.matrix);
      gl.uniform3fv(at("eye"), seen.eye);
      return at;
    };
    let at = use(this.capsules);
    gl.uniform3fv(at("back"), seen.back);
    gl.uniform1f(at("opacity"), 1);
    for (const layer of scene.layers.filter((each) => each.shown && each.count)) {
      gl.bindVertexArray(layer.array);
      if (layer.moves) {
        gl.bindBuffer(gl.ARRAY_BUFFER, layer.buffer);
        gl.bufferSubData(gl.ARRAY_BUFFER, 0, this.between(layer.numbers, 8 * layer.count, frame));
      }
      gl.uniform3fv(at("tint"), layer.color[dark ? 1 : 0]);
      gl.uniform1f(at("plain"), layer.plain ? 1 : 0);
      gl.uniform1f(at("thinnest"), ((0.5 * layer.pixels) / canvas.clientHeight) * 2 * seen.tangent);
      gl.drawArraysInstanced(gl.TRIANGLES, 0, this.corners.length / 4, layer.count);
    }
    if (!scene.mesh) return;
    at = use(this.bodies);
    gl.uniform1f(at("plain"), 0);
    this.place(this.between(scene.mesh.placements, 7 * scene.mesh.count, frame));
    gl.bindVertexArray(scene.mesh.array);
    this.drawSolids(at, (solid) => solid.color[3] === 1);
    gl.enable(gl.BLEND);
    gl.enable(gl.CULL_FACE);
    gl.depthMask(false);
    for (const hidden of [gl.FRONT, gl.BACK]) {  // of what is seen through, the far side first
      gl.cullFace(hidden);
      this.drawSolids(at, (solid) => solid.color[3] < 1);
    }
    gl.depthMask(true);
    gl.disable(gl.CULL_FACE);
    gl.disable(gl.BLEND);
  }

  drawSolids(at, chosen) {
    for (const solid of this.scene.mesh.solids.filter(chosen)) {
      this.gl.uniform1f(at("opacity"), solid.color[3]);
      this.gl.drawArrays(this.gl.TRIANGLES, 3 * solid.start, 3 * (solid.stop - solid.start));
    }
  }

  /** Tell the shader where bodies are: of each w x y z of a quaternion, not of unit length between frames, x y z. */
  place(placements) {
    const gl = this.gl;
    for (let i = 0; i < this.scene.mesh.count; i++) {
      const q = placements.subarray(7 * i, 7 * i + 4), length = Math.hypot(...q);
      this.texels.set([...q].map((x) => x / length), 8 * i);
      this.texels.set(placements.subarray(7 * i + 4, 7 * i + 7), 8 * i + 4);
    }
    const height = this.texels.length / 4 / this.width;
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA32F, this.width, height, 0, gl.RGBA, gl.FLOAT, this.texels);
  }
}

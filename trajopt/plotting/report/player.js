"use strict";
/* The page's element #player has the canvas and what controls it, #scene what is to be seen.  Nothing is fetched. */

// ------------------------------------------------------------------------------------------------ the camera
class View {
  constructor(camera) {
    this.home = camera;
    this.reset();
  }

  reset() {
    const away = minus(this.home.position, this.home.look_at);
    this.middle = this.home.look_at.slice();
    this.distance = Math.hypot(...away);
    this.azimuth = Math.atan2(away[1], away[0]);
    this.elevation = Math.asin(clamped(away[2] / this.distance, -1, 1));
  }

  axes() {
    const [c, s, flat] = [Math.cos(this.azimuth), Math.sin(this.azimuth), Math.cos(this.elevation)];
    const back = [flat * c, flat * s, Math.sin(this.elevation)], right = [-s, c, 0];
    return [right, cross(back, right), back];
  }

  /** What shaders need; where a page is narrower than the one that the camera was placed for, it stands farther off. */
  seen(aspect) {
    const [right, up, back] = this.axes(), tangent = Math.tan(0.5 * this.home.field_of_view);
    const distance = this.distance * Math.max(1, this.home.aspect / aspect);
    const eye = moved(this.middle, distance, back), near = 0.01 * distance, far = 100 * distance;
    const rows = [scaled(1 / (tangent * aspect), right), scaled(1 / tangent, up), back, scaled(-1, back)];
    const depth = [-(far + near) / (far - near), (-2 * far * near) / (far - near)];
    const offset = rows.map((row) => -dot(row, eye));
    rows[2] = scaled(depth[0], back);
    offset[2] = depth[0] * -dot(back, eye) + depth[1];
    const matrix = [0, 1, 2].flatMap((column) => rows.map((row) => row[column])).concat(offset);
    return { matrix, eye, back, tangent };
  }

  turn(right, up) {
    this.azimuth -= right;
    this.elevation = clamped(this.elevation + up, -1.5706, 1.5706);
  }

  /** Move by shares of the picture's height. */
  shift(right, up) {
    const [x, y] = this.axes(), size = 2 * this.distance * Math.tan(0.5 * this.home.field_of_view);
    this.middle = moved(moved(this.middle, -right * size, x), up * size, y);
  }

  zoom(factor) {
    this.distance *= clamped(factor, 0.5, 2);
  }
}

// ------------------------------------------------------------------------------------------------ the page
function start(root, scene) {
  const part = (name) => root.querySelector(`[data-part=${name}]`);
  const [canvas, play, slider, clock, speed] = ["canvas", "play", "time", "clock", "speed"].map(part);
  const picture = new Picture(canvas, scene), view = new View(scene.camera);
  const scheme = window.matchMedia("(prefers-color-scheme: dark)"), end = scene.times[scene.times.length - 1];
  let time = 0, playing = false, before = 0, asked = false;
  const ask = () => {
    if (!asked) window.requestAnimationFrame(show);
    asked = true;
  };
  function show(now) {
    asked = false;
    if (playing) {
      time += (Number(speed.value) * (now - before)) / 1000;
      time = time <= end ? time : 0;
      slider.value = time;
      before = now;
      ask();
    }
    clock.textContent = `${time.toFixed(2)} s of ${end.toFixed(2)} s`;
    picture.draw(time, view, scheme.matches);
  }
  function toggle() {
    playing = !playing;
    play.textContent = playing ? "Pause" : "Play";
    before = window.performance.now();
    ask();
  }
  const then = (change) => (event) => {
    change(event);
    ask();
  };
  slider.max = end;
  slider.step = end / 1000;
  play.addEventListener("click", toggle);
  slider.addEventListener("input", then(() => (time = Number(slider.value))));
  part("home").addEventListener("click", then(() => view.reset()));
  for (const box of root.querySelectorAll("input[data-layers]"))
    box.addEventListener("change", then(() => {
      for (const layer of scene.layers) if (layer.name === box.dataset.layers) layer.shown = box.checked;
    }));
  steer(canvas, view, then, toggle);
  scheme.addEventListener("change", ask);
  new ResizeObserver(ask).observe(canvas);
  canvas.addEventListener("webglcontextlost", () => complain(root, "the graphics card was lost; load the page again"));
  ask();
}

/** Turn by dragging; move with Shift, the right button or two fingers; zoom by the wheel, once the canvas was clicked. */
function steer(canvas, view, then, toggle) {
  const held = new Map(), spread = () => {
    const [a, b] = [...held.values()];
    return Math.hypot(a.x - b.x, a.y - b.y);
  };
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    held.set(event.pointerId, { x: event.clientX, y: event.clientY });
  });
  for (const kind of ["pointerup", "pointercancel"])
    canvas.addEventListener(kind, (event) => held.delete(event.pointerId));
  canvas.addEventListener("pointermove", then((event) => {
    const last = held.get(event.pointerId);
    if (!last) return;
    const [dx, dy] = [event.clientX - last.x, event.clientY - last.y], wide = held.size === 2 ? spread() : 0;
    Object.assign(last, { x: event.clientX, y: event.clientY });
    const size = canvas.clientHeight, shifts = event.shiftKey || event.buttons === 2 || held.size === 2;
    if (shifts) view.shift(dx / size / held.size, dy / size / held.size);
    else view.turn((4 * dx) / size, (4 * dy) / size);
    if (wide) view.zoom(wide / spread());
  }));
  canvas.addEventListener("contextmenu", (event) => event.preventDefault());
  canvas.addEventListener("wheel", (event) => {
    if (document.activeElement !== canvas) return;
    event.preventDefault();
    then(() => view.zoom(Math.exp(0.001 * event.deltaY)))(event);
  }, { passive: false });
  const keys = {
    ArrowLeft: () => view.turn(0.1, 0), ArrowRight: () => view.turn(-0.1, 0), ArrowUp: () => view.turn(0, 0.1),
    ArrowDown: () => view.turn(0, -0.1), "+": () => view.zoom(0.9), "-": () => view.zoom(1.1), " ": toggle,
  };
  canvas.addEventListener("keydown", (event) => {
    if (!keys[event.key]) return;
    event.preventDefault();
    then(keys[event.key])(event);
  });
}

function complain(root, trouble) {
  root.querySelector("[data-part=trouble]").textContent = `No moving picture here: ${trouble}.`;
  root.classList.add("without-picture");
}

const player = document.getElementById("player");
try {
  start(player, JSON.parse(document.getElementById("scene").textContent));
} catch (error) {
  complain(player, error.message);
}
